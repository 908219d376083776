//! Clouds and name servers on local ports that remember what they were asked and answer
//! as they are told. For tests only.

pub mod galaxy;

pub use galaxy::{Arrived, Behaviour, FakeCloud};
