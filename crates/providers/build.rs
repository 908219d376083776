//! Turns the protocol of `proto/` into Rust. The compiler is a crate, so that
//! no `protoc` has to be installed.

use std::error::Error;

const PROTO: &str = "proto/galaxy.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={PROTO}");
    let descriptors = protox::compile([PROTO], ["proto"])?;
    tonic_prost_build::configure()
        // The product only calls; serving is for tests.
        .server_mod_attribute("rpc", "#[cfg(any(test, feature = \"fake\"))]")
        .compile_fds(descriptors)?;
    Ok(())
}
