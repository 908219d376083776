//! The name servers.
pub mod cloudflare;
pub mod digitalocean;
pub mod rfc2136;
pub mod route53;
