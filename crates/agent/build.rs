//! Turns the protocol of `proto/` into Rust. The compiler is a crate, so that
//! no `protoc` has to be installed.

use std::error::Error;

const PROTO: &str = "proto/cri.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={PROTO}");
    let descriptors = protox::compile([PROTO], ["proto"])?;
    tonic_prost_build::configure()
        // The agent only calls; serving is for tests.
        .server_mod_attribute("runtime.v1", "#[cfg(test)]")
        .compile_fds(descriptors)?;
    Ok(())
}
