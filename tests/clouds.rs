//! Clients of clouds and name servers, on servers that are not ours where there are some.
//!
//! The suites that every client passes are in `floe_providers::conformance`. Where a vendor
//! has no server that could run here, a fake of ours stands for it; then the vendor's own
//! client is asked what it makes of the fake.

#![allow(
    clippy::unwrap_used,
    reason = "clippy takes the helpers of these tests for ordinary code"
)]

#[path = "clouds/aws.rs"]
mod aws;
#[path = "clouds/cloudflare.rs"]
mod cloudflare;
#[path = "clouds/digitalocean.rs"]
mod digitalocean;
#[path = "clouds/fake.rs"]
mod fake;
#[path = "clouds/hetzner.rs"]
mod hetzner;
#[path = "clouds/neutron.rs"]
mod neutron;
#[path = "clouds/rfc2136.rs"]
mod rfc2136;
#[path = "clouds/sdk.rs"]
mod sdk;
