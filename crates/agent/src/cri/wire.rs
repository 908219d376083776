//! The messages and the client, made from `proto/cri.proto` by the build.

#![allow(
    missing_docs,
    clippy::enum_variant_names,
    clippy::pedantic,
    clippy::wildcard_enum_match_arm
)]

tonic::include_proto!("runtime.v1");
