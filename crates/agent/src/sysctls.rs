//! Settings of the kernel without which pods reach nobody.
//!
//! Compat: galaxy forces both to what its flags say, every five minutes.

use std::{
    io::{self, ErrorKind},
    sync::Arc,
    time::Duration,
};

use floe_shell::stop::Stop;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{debug, info, warn};

/// The time between two looks.
const PERIOD: Duration = Duration::from_mins(5);

const IP_FORWARD: &str = "net/ipv4/ip_forward";
const BRIDGE_NF: &str = "net/bridge/bridge-nf-call-iptables";

/// Writes a setting; whether it had another value. It blocks.
pub type Write = Arc<dyn Fn(&str, &str) -> io::Result<bool> + Send + Sync>;

/// The values that the settings shall have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sysctls {
    /// Whether the node forwards IPv4.
    pub ip_forward: bool,
    /// Whether iptables sees what bridges forward.
    pub bridge_nf_call_iptables: bool,
}

impl Sysctls {
    /// Forces the settings at once and then every five minutes until `stop`.
    pub async fn keep(self, write: Write, mut stop: Stop) {
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.requested() => return,
                _ = ticks.tick() => {}
            }
            let write = Arc::clone(&write);
            // A panic in there ends this task, and so the process.
            let forced = tokio::task::spawn_blocking(move || self.force(&*write)).await;
            if let Err(error) = forced {
                std::panic::resume_unwind(error.into_panic());
            }
        }
    }

    fn force(self, write: &dyn Fn(&str, &str) -> io::Result<bool>) {
        let all = [
            (IP_FORWARD, self.ip_forward),
            (BRIDGE_NF, self.bridge_nf_call_iptables),
        ];
        for (setting, on) in all {
            let value = if on { "1" } else { "0" };
            match write(setting, value) {
                Ok(true) => info!(setting, value, "setting of the kernel is changed"),
                Ok(false) => {}
                // Without its module the kernel filters nothing on bridges anyway.
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    debug!(setting, "the kernel has no such setting");
                }
                Err(error) => warn!(
                    reason = "SysctlRefused",
                    setting,
                    value,
                    error = %error,
                    "setting of the kernel cannot be changed",
                ),
            }
        }
    }
}

/// Writes settings of this host.
pub fn in_kernel() -> Write {
    Arc::new(floe_net::sysctl::write)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use floe_shell::stop;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn both_settings_are_forced_again_and_again_whatever_fails() {
        let written: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = Arc::clone(&written);
        let write: Write = Arc::new(move |setting, value| {
            seen.lock().unwrap().push(format!("{setting}={value}"));
            match setting {
                IP_FORWARD => Err(ErrorKind::PermissionDenied.into()),
                _ => Err(ErrorKind::NotFound.into()),
            }
        });
        let sysctls = Sysctls {
            ip_forward: true,
            bridge_nf_call_iptables: false,
        };
        let (stopper, stop) = stop::channel();
        let task = tokio::spawn(sysctls.keep(write, stop));
        let round = [
            "net/ipv4/ip_forward=1",
            "net/bridge/bridge-nf-call-iptables=0",
        ];
        let begin = tokio::time::Instant::now();
        while written.lock().unwrap().len() < 4 {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let passed = begin.elapsed();
        assert!(passed >= PERIOD && passed < 2 * PERIOD, "{passed:?}");
        assert_eq!(*written.lock().unwrap(), [round, round].concat());
        stopper.stop();
        task.await.unwrap();
    }
}
