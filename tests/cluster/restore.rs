//! etcd loses what it had: every pod that is to keep its address has it afterwards, as
//! `docs/guide/backup.md` says, and what does not fit together is found by `kubectl floe
//! check`.

mod check;
mod ground;
mod lost;
mod went_back;
