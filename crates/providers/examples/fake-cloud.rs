//! The cloud of provider `fake` as a program, for tests of your own: `docs/providers/fake.md` tells
//! how to use it.
//!
//! ```sh
//! cargo run -p floe-providers --features fake --example fake-cloud -- 127.0.0.1:8080
//! ```
//!
//! It has the documented API of DigitalOcean, with state that lasts as long as the program. What
//! it is to have, and how it is to behave, is told it by `POST /_fake/script`.

use std::{
    env,
    error::Error,
    io::{self, Write as _},
};

use floe_providers::fake::digitalocean::FakeDigitalOcean;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (address, token) = match &arguments[..] {
        [address] => (address, "fake"),
        [address, token] => (address, token.as_str()),
        _ => return Err("usage: fake-cloud ADDRESS:PORT [TOKEN]".into()),
    };
    let listener = TcpListener::bind(address).await?;
    let cloud = FakeDigitalOcean::start_on(listener, token, |it| it)?;
    writeln!(io::stdout(), "listening at {}", cloud.server().url())?;
    tokio::signal::ctrl_c().await?;
    Ok(())
}
