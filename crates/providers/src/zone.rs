//! The name servers.
pub mod cloudflare;
pub mod digitalocean;
mod plan;
pub mod rfc2136;
pub mod route53;
