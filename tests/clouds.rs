//! Clients of clouds and name servers, on servers that are not ours where there are some.

#![allow(
    clippy::unwrap_used,
    reason = "clippy takes the helpers of these tests for ordinary code"
)]

#[path = "clouds/aws.rs"]
mod aws;
#[path = "clouds/rfc2136.rs"]
mod rfc2136;
