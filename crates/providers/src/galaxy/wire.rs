//! The messages and the client, made from `proto/galaxy.proto` by the build.

#![allow(clippy::pedantic, clippy::wildcard_enum_match_arm)]

tonic::include_proto!("rpc");

/// What tonic says of a call that ended well but without a message. It has no
/// code of its own, so the text is all there is; a test holds it.
pub const NO_MESSAGE: &str = "Missing response message.";
