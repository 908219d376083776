//! One at a time for each pod name.
//!
//! Binding a pod and releasing what a pod of that name has left must not
//! interleave, nor must two binds: the ledger's promises assume it.

use floe_shell::turns;

/// Whose turn it is, by namespace and name.
#[derive(Clone, Debug, Default)]
pub struct Turns(turns::Turns<Name>);

/// The right to act for a pod name, until it is dropped.
pub type Turn = turns::Turn<Name>;

type Name = (String, String);

impl Turns {
    /// Waits for the turn.
    pub async fn wait(&self, namespace: &str, pod: &str) -> Turn {
        self.0.wait(name(namespace, pod)).await
    }

    /// Whether somebody acts for a pod name, or waits to.
    pub fn is_taken(&self, namespace: &str, pod: &str) -> bool {
        self.0.is_taken(&name(namespace, pod))
    }

    /// Waits until nobody acts.
    pub async fn all_over(&self) {
        self.0.all_over().await;
    }
}

fn name(namespace: &str, pod: &str) -> Name {
    (namespace.to_owned(), pod.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_same_name_in_another_namespace_is_another_one() {
        let turns = Turns::default();
        let _turn = turns.wait("ns", "a").await;
        let _other = turns.wait("other", "a").await;
        assert!(turns.is_taken("ns", "a"));
        assert!(!turns.is_taken("ns", "b"));
        let mut next = std::pin::pin!(turns.wait("ns", "a"));
        assert!(futures::poll!(next.as_mut()).is_pending());
    }
}
