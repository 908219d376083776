//! Pools of node addresses, and the flags of FLIPOP.
//!
//! Credentials of clouds and name servers are no flags: they come from the environment or
//! from files, so that nobody reads them in a list of processes.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr, SocketAddr},
};

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

    /// FLIPOP's name for --health-addr, which it goes before. The address may be a host name;
    /// an empty value disables the HTTP server: no metrics, and no probes
    #[arg(
        long,
        env = "FLOE_METRICS_BIND_ADDR",
        value_name = "HOST:PORT",
        value_parser = HealthAddress::parse,
    )]
    pub metrics_bind_addr: Option<HealthAddress>,

    /// FLIPOP's name for --log-level=info,floe_controller=debug
    #[arg(
        long, env = "FLOE_DEBUG", value_name = "BOOL",
        default_value = "false", default_missing_value = "true",
        num_args = 0..=1, require_equals = true,
        action = ArgAction::Set, value_parser = BoolishValueParser::new(),
    )]
    pub debug: bool,
}

/// Where health, readiness, version and metrics are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HealthAddress {
    /// Nowhere.
    Disabled,
    /// At an address.
    At(SocketAddr),
    /// At an address of this host name, which is resolved at the start.
    Named {
        /// The host name.
        host: String,
        /// The port.
        port: u16,
    },
}

impl HealthAddress {
    /// Reads an address as Go's `net.Listen` does: without a host it is any. Names of services,
    /// such as `:http`, are not read.
    fn parse(value: &str) -> Result<Self, String> {
        if value.is_empty() {
            return Ok(Self::Disabled);
        }
        if let Ok(addr) = value.parse() {
            return Ok(Self::At(addr));
        }
        let expected = || "expected a host and a port, such as :8080 or localhost:8080".to_owned();
        let (host, port) = value.rsplit_once(':').ok_or_else(expected)?;
        let port = port.parse().map_err(|_| expected())?;
        if host.is_empty() {
            let any = IpAddr::from(Ipv6Addr::UNSPECIFIED);
            return Ok(Self::At((any, port).into()));
        }
        let is_named = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '.' | '_');
        if !host.chars().all(is_named) {
            return Err(expected());
        }
        let host = host.to_owned();
        Ok(Self::Named { host, port })
    }
}

impl fmt::Display for HealthAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disabled => out.write_str("nowhere"),
            Self::At(addr) => addr.fmt(out),
            Self::Named { host, port } => write!(out, "{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_in_go() {
        for (text, told) in [
            (":8080", "[::]:8080"),
            ("127.0.0.1:1", "127.0.0.1:1"),
            ("[::1]:8080", "[::1]:8080"),
            ("localhost:8080", "localhost:8080"),
            ("", "nowhere"),
        ] {
            let read = HealthAddress::parse(text).unwrap();
            assert_eq!(read.to_string(), told, "{text}");
        }
        for bad in [
            ":",
            "8080",
            ":x",
            "localhost",
            "::1:8080",
            "a b:1",
            "x:99999",
        ] {
            assert!(HealthAddress::parse(bad).is_err(), "{bad}");
        }
    }
}
