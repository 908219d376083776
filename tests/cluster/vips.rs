//! Shared addresses: several pods name one address, one of them answers at it, and
//! another one when that one cannot any more.

mod calico;
mod caught;
mod claims;
mod cleanup;
mod clouds;
mod connections;
mod egress;
mod failover;
mod fence;
mod forwarding;
pub mod ground;
mod judge;
mod pools;
mod ranges;
mod raw;
mod reach;
mod refusals;
mod remade;
mod schedules;
mod single_holder;
mod standstill;
mod wall_clock;
mod wire;
