//! Where a pod that wants addresses may run, and which addresses it then gets.
//!
//! - [`caller`]: from where the scheduler may ask.
//! - [`claimant`]: the pod and what it asks for.
//! - [`limit`]: how many addresses its group may use.
//! - [`filter`](mod@filter): which of the offered nodes can run it.
//! - [`score`](mod@score): which of those it should rather run on.
//! - [`bind`](mod@bind): which addresses it gets there.
//! - [`gate`]: all of this at once, for a pod that waits at a scheduling gate.
//! - [`preempt`](mod@preempt): where other pods may be stopped for it.
//! - [`wake`]: which of several waiting pods goes first.
//! - [`refusal`]: why not.
//!
//! All are functions of the [`Ledger`](crate::ipam::ledger::Ledger): they write
//! nothing, and asking again changes nothing. What has to be remembered between
//! two questions is part of the answer, as a
//! [`Promise`](crate::ipam::ledger::Promise).

pub mod bind;
pub mod caller;
pub mod claimant;
pub mod filter;
pub mod gate;
pub mod limit;
mod plan;
pub mod preempt;
pub mod refusal;
pub mod score;
pub mod wake;

#[cfg(test)]
mod tests;
