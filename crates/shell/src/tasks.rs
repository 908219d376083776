//! All tasks of a program: they run until a signal, are asked to stop together, and
//! each of them is joined.

use std::{future::Future, io};

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    task::{JoinError, JoinSet},
};
use tracing::info;

use crate::stop::{self, Stop, Stopper};

/// Why a program ended although nobody has asked it to.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// The system refuses to tell about signals.
    #[error("cannot wait for signals")]
    Signal(#[source] io::Error),
    /// A task has ended before the stop. All of them run forever.
    #[error("a task has ended too early")]
    Ended,
    /// A task has panicked.
    #[error("a task has failed")]
    Panicked(#[source] JoinError),
}

/// The signals that ask a program to stop. From the moment it exists none is missed.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Listens from now on.
    pub fn listen() -> Result<Self, TaskError> {
        let listen = |kind| signal(kind).map_err(TaskError::Signal);
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    /// Waits for one, and tells its name.
    async fn next(mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// All tasks, and how they learn that they shall end. Dropping it ends them at once.
#[derive(Debug)]
pub struct Tasks<E> {
    set: JoinSet<Result<(), E>>,
    stopper: Stopper,
    stop: Stop,
}

impl<E> Default for Tasks<E> {
    fn default() -> Self {
        let (stopper, stop) = stop::channel();
        Self {
            set: JoinSet::new(),
            stopper,
            stop,
        }
    }
}

impl<E: From<TaskError> + Send + 'static> Tasks<E> {
    /// Starts a task that cannot fail.
    pub fn start<F>(&mut self, task: impl FnOnce(Stop) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let task = task(self.stop.clone());
        self.set.spawn(async move {
            task.await;
            Ok(())
        });
    }

    /// Starts a task whose failure is a reason for all to stop.
    pub fn start_fallible<F>(&mut self, task: impl FnOnce(Stop) -> F)
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
    {
        self.set.spawn(task(self.stop.clone()));
    }

    /// Waits for a signal or for a task that ends, asks all tasks to stop, and waits
    /// for each of them.
    pub async fn run(self, signals: Signals) -> Result<(), E> {
        self.run_until(signals.next()).await
    }

    async fn run_until(mut self, signal: impl Future<Output = &'static str>) -> Result<(), E> {
        let mut result = tokio::select! {
            signal = signal => { info!(signal, "stopping"); Ok(()) }
            Some(ended) = self.set.join_next() => {
                outcome(ended).and(Err(TaskError::Ended.into()))
            }
        };
        self.stopper.stop();
        while let Some(ended) = self.set.join_next().await {
            // The first failure is the cause; later ones follow from it.
            result = result.and(outcome(ended));
        }
        info!("stopped");
        result
    }
}

fn outcome<E: From<TaskError>>(ended: Result<Result<(), E>, JoinError>) -> Result<(), E> {
    ended.map_err(TaskError::Panicked)?
}

#[cfg(test)]
mod tests {
    use std::{
        future::{pending, ready},
        process::{self, Command},
        sync::{
            Arc,
            atomic::{AtomicU32, Ordering},
        },
    };

    use super::*;

    #[derive(Debug, thiserror::Error)]
    enum Error {
        #[error(transparent)]
        Task(#[from] TaskError),
        #[error("{0}")]
        Own(&'static str),
    }

    /// Two tasks that stop when they are asked to, and count it.
    fn two(stopped: &Arc<AtomicU32>) -> Tasks<Error> {
        let mut tasks = Tasks::default();
        for _ in 0..2 {
            let stopped = Arc::clone(stopped);
            tasks.start(|mut stop| async move {
                stop.requested().await;
                stopped.fetch_add(1, Ordering::Relaxed);
            });
        }
        tasks
    }

    #[tokio::test]
    async fn a_signal_stops_all_tasks_and_each_is_waited_for() {
        let stopped = Arc::default();
        let signals = Signals::listen().unwrap();
        let kill = Command::new("kill")
            .args(["-TERM", &process::id().to_string()])
            .status();
        assert!(kill.unwrap().success());
        two(&stopped).run(signals).await.unwrap();
        assert_eq!(stopped.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn a_task_that_ends_too_early_stops_the_others() {
        let stopped = Arc::default();
        let mut tasks = two(&stopped);
        tasks.start(|_| ready(()));
        let error = tasks.run_until(pending()).await.unwrap_err();
        assert!(matches!(error, Error::Task(TaskError::Ended)), "{error}");
        assert_eq!(stopped.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn the_first_failure_is_told() {
        let stopped = Arc::default();
        let mut tasks = two(&stopped);
        tasks.start_fallible(|_| ready(Err(Error::Own("first"))));
        tasks.start_fallible(|mut stop| async move {
            stop.requested().await;
            Err(Error::Own("second"))
        });
        let error = tasks.run_until(pending()).await.unwrap_err();
        assert!(matches!(error, Error::Own("first")), "{error}");
        assert_eq!(stopped.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn a_failure_while_stopping_is_told_too() {
        let mut tasks = Tasks::default();
        tasks.start_fallible(|mut stop| async move {
            stop.requested().await;
            Err(Error::Own("late"))
        });
        let error = tasks.run_until(ready("SIGINT")).await.unwrap_err();
        assert!(matches!(error, Error::Own("late")), "{error}");
    }

    #[tokio::test]
    async fn a_panic_is_a_failure() {
        let mut tasks = Tasks::<Error>::default();
        tasks.start(|_| async { panic!("as the test wants it") });
        let error = tasks.run_until(pending()).await.unwrap_err();
        assert!(
            matches!(error, Error::Task(TaskError::Panicked(_))),
            "{error}"
        );
    }
}
