//! Pools of node addresses, and the flags of FLIPOP.
//!
//! Credentials of clouds and name servers are no flags: they come from the environment or
//! from files, so that nobody reads them in a list of processes.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use clap::{ArgAction, Args, builder::BoolishValueParser};

/// The flags about pools of node addresses.
#[derive(Debug, Args)]
#[command(next_help_heading = "Node addresses")]
pub struct FlipopFlags {
    /// Look after pools of node addresses and names of nodes (FLIPOP's resources), if
    /// those are defined
    #[arg(
        long, env = "FLOE_NODE_POOLS", value_name = "BOOL",
        default_value = "true", default_missing_value = "true",
        num_args = 0..=1, require_equals = true,
        action = ArgAction::Set, value_parser = BoolishValueParser::new(),
    )]
    pub node_pools: bool,

    /// Look after addresses of pods and shared addresses; with `--float-ips=false`
    /// neither the scheduler extender nor the management API is served, and the
    /// definitions of galaxy are not needed
    #[arg(
        long, env = "FLOE_FLOAT_IPS", value_name = "BOOL",
        default_value = "true", default_missing_value = "true",
        num_args = 0..=1, require_equals = true,
        action = ArgAction::Set, value_parser = BoolishValueParser::new(),
    )]
    pub float_ips: bool,

    /// FLIPOP's name for --health-addr, which it goes before
    #[arg(
        long,
        env = "FLOE_METRICS_BIND_ADDR",
        value_name = "ADDR:PORT",
        value_parser = go_address
    )]
    pub metrics_bind_addr: Option<SocketAddr>,

    /// FLIPOP's name for --log-level=info,floe_controller=debug
    #[arg(
        long, env = "FLOE_DEBUG", value_name = "BOOL",
        default_value = "false", default_missing_value = "true",
        num_args = 0..=1, require_equals = true,
        action = ArgAction::Set, value_parser = BoolishValueParser::new(),
    )]
    pub debug: bool,
}

/// An address as Go writes it: without a host it is any.
fn go_address(value: &str) -> Result<SocketAddr, String> {
    if let Some(port) = value.strip_prefix(':') {
        let port = port
            .parse()
            .map_err(|_| "expected a port after the colon")?;
        return Ok((IpAddr::from(Ipv6Addr::UNSPECIFIED), port).into());
    }
    value
        .parse()
        .map_err(|_| "expected an address and a port, such as :8080".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_in_go() {
        assert_eq!(go_address(":8080").unwrap().to_string(), "[::]:8080");
        assert_eq!(
            go_address("127.0.0.1:1").unwrap().to_string(),
            "127.0.0.1:1"
        );
        for bad in ["", ":", "8080", ":x", "localhost"] {
            assert!(go_address(bad).is_err(), "{bad}");
        }
    }
}
