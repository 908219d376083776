//! What the operator of a node can set: flags, and an environment variable for some.

use std::{
    ffi::OsString,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    path::PathBuf,
};

use clap::{
    ArgAction, Parser, Subcommand,
    builder::{BoolishValueParser, OsStringValueParser},
};
use floe_shell::{logs, version};

use crate::{
    cleanup::Cleanup,
    install::{self, Install, Uninstall},
    sysctls::Sysctls,
};

mod galaxy;

/// What the program shall do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Which work.
    pub work: Work,
    /// How log lines look.
    pub log_format: logs::Format,
    /// Which log lines are written.
    pub log_level: String,
    /// Flags that were given and have no effect.
    pub without_effect: Vec<&'static str>,
}

/// Which work the program does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Serve this node.
    Serve(Box<Settings>),
    /// Undo on the host what floe did there for all pods.
    Cleanup(Cleanup),
    /// Put the plugins on the host.
    Install(Install),
    /// Take them away again.
    Uninstall(Uninstall),
    /// Ask whether the daemon of this node serves.
    Ask {
        /// Its socket.
        socket: PathBuf,
    },
}

/// Checked settings of the daemon; nothing later looks at the flags again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The kubeconfig to use instead of what the surroundings offer.
    pub kubeconfig: Option<PathBuf>,
    /// `galaxy.json`.
    pub networks_file: PathBuf,
    /// The folder with further networks.
    pub network_conf_dir: PathBuf,
    /// Where plugins lie that the runtime does not know.
    pub cni_paths: Vec<String>,
    /// The name of this node.
    pub node: String,
    /// The socket for the shim.
    pub socket: PathBuf,
    /// The folder of state files.
    pub state_dir: PathBuf,
    /// The endpoint of the container runtime.
    pub runtime: String,
    /// Whether addresses are configured without looking at their records.
    pub trust_annotations: bool,
    /// Settings of the kernel.
    pub sysctls: Sysctls,
    /// Whether addresses that pods share are served.
    pub vip: bool,
    /// The port at which agents reach each other about them.
    pub vip_port: u16,
    /// Where metrics are served.
    pub metrics_addr: Option<SocketAddr>,
}

impl Config {
    /// Reads the program's flags. Ends the process with code 2 and a message when they
    /// are wrong, with code 0 after `--help` and `--version`.
    pub fn from_process() -> Self {
        Self::parse(std::env::args_os()).unwrap_or_else(|error| error.exit())
    }

    /// Reads and checks flags; the first one is the program's name.
    pub fn parse<T>(args: impl IntoIterator<Item = T>) -> Result<Self, clap::Error>
    where
        T: Into<OsString> + Clone,
    {
        let args = args.into_iter().map(|arg| galaxy::dashed(arg.into()));
        Ok(Flags::try_parse_from(args)?.check())
    }
}

/// The node side of floe: gives pods their networks and addresses.
///
/// Talks to the API server that --kubeconfig names, else to the one that the
/// environment variable KUBECONFIG or ~/.kube/config names, else, inside of a
/// pod, to the pod's own cluster.
#[derive(Debug, Parser)]
// Compat: of a flag that is given twice the last one counts, as in Go.
#[command(name = "floe-agent", version = version::LINE.as_str(), args_override_self = true)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each of them is a flag that is on or off"
)]
struct Flags {
    #[command(subcommand)]
    command: Option<Other>,

    /// Kubeconfig file of the cluster; an empty value is the same as none
    #[arg(
        long, env = "FLOE_KUBECONFIG", value_name = "FILE",
        value_parser = OsStringValueParser::new(),
    )]
    kubeconfig: Option<OsString>,

    /// galaxy's JSON file with the networks of this node
    #[arg(long, value_name = "FILE", default_value = "/etc/galaxy/galaxy.json")]
    json_config_path: PathBuf,

    /// Folder with further networks; files .conf, .json and .conflist, also one level
    /// below
    #[arg(long, value_name = "DIR", default_value = "/etc/cni/net.d/")]
    network_conf_dir: PathBuf,

    /// Folders with plugins, looked at after those of the runtime, and alone when the
    /// agent cleans up by itself
    #[arg(
        long,
        value_name = "DIRS",
        value_delimiter = ',',
        default_value = "/opt/cni/galaxy/bin,/opt/cni/bin"
    )]
    cni_paths: Vec<String>,

    /// Name of this node [default: the environment variable `MY_NODE_NAME`, else
    /// the host's name]
    #[arg(
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    hostname_override: String,

    /// Socket on which the shim galaxy-sdn asks
    #[arg(
        long,
        env = "FLOE_SOCKET",
        value_name = "FILE",
        default_value = "/var/run/galaxy/galaxy.sock",
        global = true
    )]
    socket: PathBuf,

    /// Folder of the files that say what is attached
    #[arg(
        long,
        env = "FLOE_STATE_DIR",
        value_name = "DIR",
        default_value = "/var/lib/cni/galaxy",
        global = true
    )]
    state_dir: PathBuf,

    /// Endpoint of the container runtime
    #[arg(
        long, env = "CONTAINERD_HOST", value_name = "URL",
        default_value = crate::cri::DEFAULT_ENDPOINT,
    )]
    container_runtime_endpoint: String,

    /// Configure the addresses of a pod's annotation without looking whether their
    /// records name the pod. Whoever can edit a pod can then take any address
    #[arg(
        long, env = "FLOE_TRUST_ANNOTATIONS", value_name = "BOOL",
        default_value = "false", default_missing_value = "true",
        num_args = 0..=1, require_equals = true,
        action = ArgAction::Set, value_parser = BoolishValueParser::new(),
    )]
    trust_annotations: bool,

    /// Value of `net.ipv4.ip_forward`, set every five minutes
    #[arg(
        long, value_name = "BOOL",
        default_value = "true", default_missing_value = "true",
        num_args = 0..=1, require_equals = true,
        action = ArgAction::Set, value_parser = BoolishValueParser::new(),
    )]
    ip_forward: bool,

    /// Value of `net.bridge.bridge-nf-call-iptables`, set every five minutes
    #[arg(
        long, value_name = "BOOL",
        default_value = "true", default_missing_value = "true",
        num_args = 0..=1, require_equals = true,
        action = ArgAction::Set, value_parser = BoolishValueParser::new(),
    )]
    bridge_nf_call_iptables: bool,

    /// Serve floating addresses that pods share
    #[arg(
        long, env = "FLOE_VIP", value_name = "BOOL",
        default_value = "true", default_missing_value = "true",
        num_args = 0..=1, require_equals = true,
        action = ArgAction::Set, value_parser = BoolishValueParser::new(),
    )]
    vip: bool,

    /// UDP port at which agents reach each other about shared addresses; the same on all
    /// nodes
    #[arg(
        long, env = "FLOE_VIP_PORT", value_name = "PORT", default_value_t = 9042,
        value_parser = clap::value_parser!(u16).range(1..),
    )]
    vip_port: u16,

    /// Address and port that serve /metrics, such as 10.0.0.7:9043 or :9043; without one,
    /// or with an empty value, they are not served
    #[arg(
        long, env = "FLOE_METRICS_ADDR", value_name = "ADDR:PORT", default_value = "",
        hide_default_value = true, value_parser = metrics_addr,
    )]
    metrics_addr: MetricsAddr,

    /// How log lines look
    #[arg(
        long,
        env = "FLOE_LOG_FORMAT",
        value_name = "FORMAT",
        default_value = "json",
        global = true
    )]
    log_format: logs::Format,

    /// Which log lines are written: error, warn, info, debug or trace, also per module
    /// as in `info,floe_agent=debug` [default: info]
    #[arg(
        long, env = "FLOE_LOG_LEVEL", value_name = "FILTER",
        value_parser = logs::usable, global = true,
    )]
    log_level: Option<String>,

    #[command(flatten)]
    klog: galaxy::Klog,

    #[command(flatten)]
    ignored: galaxy::Ignored,
}

#[derive(Debug, Subcommand)]
enum Other {
    /// Undo on this host what floe did there for all pods: host addresses move back
    /// from bridges to their devices, and bridges and vlan devices that floe made go,
    /// as do rules and routes of shared addresses.
    /// Pods go first. Those that were attached without the agent are not seen
    Cleanup {
        /// Take a missing folder of state files (--state-dir) for a sign that no pod is
        /// attached, and remove vlan devices then
        #[arg(long)]
        force: bool,
        /// Tell each step, and do none
        #[arg(long)]
        dry_run: bool,
    },
    /// Put the plugins on this host, and the agent's network first among those that the
    /// container runtime knows
    Install {
        /// Folder of plugins
        #[arg(long, value_name = "DIR", default_value = "/opt/cni/bin")]
        bin_dir: PathBuf,
        /// Folder of network configurations
        #[arg(long, value_name = "DIR", default_value = "/etc/cni/net.d")]
        conf_dir: PathBuf,
    },
    /// Take away from this host what `install` puts there. New pods then come to the next
    /// network that the container runtime knows. Pods with addresses go first
    Uninstall {
        /// Folder of plugins
        #[arg(long, value_name = "DIR", default_value = "/opt/cni/bin")]
        bin_dir: PathBuf,
        /// Folder of network configurations
        #[arg(long, value_name = "DIR", default_value = "/etc/cni/net.d")]
        conf_dir: PathBuf,
        /// Wait for SIGTERM afterwards, as daemon sets want it
        #[arg(long)]
        stay: bool,
    },
    /// Ask whether the daemon of this node serves; the exit code says it
    Ask,
}

impl Flags {
    fn check(self) -> Config {
        let without_effect = self.ignored.given();
        let log_level = self
            .log_level
            .unwrap_or_else(|| self.klog.log_level("floe_agent"));
        let settings = Settings {
            kubeconfig: self
                .kubeconfig
                .filter(|it| !it.is_empty())
                .map(PathBuf::from),
            networks_file: self.json_config_path,
            network_conf_dir: self.network_conf_dir,
            cni_paths: self
                .cni_paths
                .into_iter()
                .filter(|it| !it.is_empty())
                .collect(),
            node: node(&self.hostname_override),
            socket: self.socket,
            state_dir: self.state_dir,
            runtime: Some(self.container_runtime_endpoint)
                .filter(|it| !it.is_empty())
                .unwrap_or_else(|| crate::cri::DEFAULT_ENDPOINT.to_owned()),
            trust_annotations: self.trust_annotations,
            sysctls: Sysctls {
                ip_forward: self.ip_forward,
                bridge_nf_call_iptables: self.bridge_nf_call_iptables,
            },
            vip: self.vip,
            vip_port: self.vip_port,
            metrics_addr: self.metrics_addr.0,
        };
        Config {
            work: match self.command {
                Some(Other::Cleanup { force, dry_run }) => {
                    Work::Cleanup(Cleanup::new(settings.state_dir, force, dry_run))
                }
                Some(Other::Ask) => Work::Ask {
                    socket: settings.socket,
                },
                Some(Other::Install { bin_dir, conf_dir }) => Work::Install(Install {
                    program: install::program(),
                    bin_dir,
                    conf_dir,
                    socket: settings.socket,
                    state_dir: settings.state_dir,
                }),
                Some(Other::Uninstall {
                    bin_dir,
                    conf_dir,
                    stay,
                }) => Work::Uninstall(Uninstall {
                    bin_dir,
                    conf_dir,
                    stay,
                }),
                None => Work::Serve(settings.into()),
            },
            log_format: self.log_format,
            log_level,
            without_effect,
        }
    }
}

/// Where metrics are served, if they are.
#[derive(Clone, Copy, Debug)]
struct MetricsAddr(Option<SocketAddr>);

/// An address as Go writes it: without a host it is any.
fn metrics_addr(value: &str) -> Result<MetricsAddr, String> {
    if value.is_empty() {
        return Ok(MetricsAddr(None));
    }
    let any = IpAddr::from(Ipv6Addr::UNSPECIFIED);
    let addr = match value.strip_prefix(':') {
        Some(port) => port.parse().ok().map(|port| SocketAddr::new(any, port)),
        None => value.parse().ok(),
    };
    let addr = addr.ok_or("expected an address and a port, such as 10.0.0.7:9043 or :9043")?;
    Ok(MetricsAddr(Some(addr)))
}

/// The name of this node. Compat: in lower case, wherever it comes from.
fn node(flag: &str) -> String {
    let told = || std::env::var("MY_NODE_NAME").ok();
    let own = || nix::unistd::gethostname().ok()?.into_string().ok();
    let all = [Some(flag.to_owned()), told(), own()];
    let mut all = all.into_iter().flatten().map(|it| it.trim().to_lowercase());
    all.find(|it| !it.is_empty()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
