//! Clouds and name servers on local ports that remember what they were asked and answer
//! as they are told. For tests only.
//!
//! - [`galaxy`]: a provider of galaxy's protocol.
//! - [`digitalocean`], [`cloudflare`], [`hetzner`]: the documented APIs of those vendors,
//!   with state. Other processes tell them what to do at `POST /_fake/script`.
//! - [`server`]: what such a server is made of.

pub mod cloudflare;
pub mod digitalocean;
pub mod galaxy;
pub mod hetzner;
pub mod server;

pub use galaxy::{Arrived, Behaviour, FakeCloud};
