//! What the operator of floe can set: flags, and an environment variable for each.

use std::{
    ffi::OsString,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use clap::{
    ArgAction, CommandFactory as _, Parser,
    builder::{BoolishValueParser, NonEmptyStringValueParser, OsStringValueParser},
    error::ErrorKind,
};
use floe_core::lease::Timing;
use floe_shell::{
    go_flags::{Klog, dashed},
    logs, version,
};
use jiff::SignedDuration;

mod api;
mod extender;
mod flipop;
mod galaxy;
mod scheduling;
mod webhook;

pub use api::{ApiSettings, ApiTls, Auth, Issued};
pub use extender::ExtenderSettings;
pub use flipop::HealthAddress;
pub use scheduling::{Scheduling, SchedulingSettings};
pub use webhook::WebhookSettings;

/// Checked settings; nothing later looks at the flags again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The kubeconfig to use instead of what the surroundings offer.
    pub kubeconfig: Option<PathBuf>,
    /// galaxy-ipam's JSON file.
    pub file: FilePath,
    /// Where health, readiness, version and metrics are served.
    pub health_addr: HealthAddress,
    /// How people and tools are answered.
    pub api: ApiSettings,
    /// How the API server is answered that asks about objects; `None`: not at all.
    pub webhook: Option<WebhookSettings>,
    /// How the scheduler is answered.
    pub extender: ExtenderSettings,
    /// How pods that want addresses come to their nodes.
    pub scheduling: SchedulingSettings,
    /// How log lines look.
    pub log_format: logs::Format,
    /// Which log lines are written.
    pub log_level: String,
    /// Whether addresses of pods are looked after.
    pub float_ips: bool,
    /// Whether pools of node addresses are looked after.
    pub node_pools: bool,
    /// The lease to lead by; `None`: always lead.
    pub election: Option<Election>,
    /// The periods of the election. They also pace the checks of the API
    /// server, so they exist without an election too.
    pub timing: Timing,
}

/// A file that may have been named by somebody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePath {
    /// The file.
    pub path: PathBuf,
    /// Whether somebody has named it; then it must exist.
    pub explicit: bool,
}

/// PEM files for TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, with its chain.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Who signs the certificates of clients; `None`: they need none.
    pub client_ca: Option<PathBuf>,
}

/// Where the lease is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Election {
    /// Namespace of the lease.
    pub namespace: String,
    /// Name of the lease.
    pub name: String,
}

impl Config {
    /// Reads the program's flags. Ends the process with code 2 and a message
    /// when they are wrong, with code 0 after `--help` and `--version`.
    pub fn from_process() -> Self {
        Self::parse(std::env::args_os()).unwrap_or_else(|error| error.exit())
    }

    /// Reads and checks flags; the first one is the program's name.
    pub fn parse<T>(args: impl IntoIterator<Item = T>) -> Result<Self, clap::Error>
    where
        T: Into<OsString> + Clone,
    {
        let args = args.into_iter().map(|arg| dashed(arg.into()));
        Flags::try_parse_from(args)?.check()
    }
}

/// The control plane of floe: floating IPs for Kubernetes.
///
/// Talks to the API server that --kubeconfig names, else to the one that the
/// environment variable KUBECONFIG or ~/.kube/config names, else, inside of a
/// pod, to the pod's own cluster.
#[derive(Debug, Parser)]
// Compat: of a flag that is given twice the last one counts, as in Go.
#[command(name = "floe-controller", version = version::LINE.as_str(), args_override_self = true)]
struct Flags {
    /// Kubeconfig file of the cluster; an empty value is the same as none
    #[arg(
        long, env = "FLOE_KUBECONFIG", value_name = "FILE",
        value_parser = OsStringValueParser::new(),
    )]
    kubeconfig: Option<OsString>,

    /// galaxy-ipam's JSON file. It has the address configuration, or says in
    /// which config map to find it [default: /etc/galaxy/galaxy-ipam.json, if
    /// there is one]
    #[arg(long, env = "FLOE_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,

    /// Address that --port and --api-port are served on; the default takes
    /// connections of both IPv6 and IPv4
    #[arg(
        long, env = "FLOE_BIND", value_name = "ADDR",
        default_value_t = IpAddr::from(Ipv6Addr::UNSPECIFIED),
    )]
    bind: IpAddr,

    /// Port of the scheduler extender: /v1/filter, /v1/priority, /v1/bind,
    /// /v1/preempt and /healthy
    // No variables for the ports: the kubelet sets FLOE_PORT for a service that is
    // called floe.
    #[arg(long, value_name = "PORT", default_value_t = 9040)]
    port: u16,

    /// IP address under which other replicas reach this one; those that follow
    /// forward calls to it [default: that of --bind, or the one
    /// from which the API server is reached]
    #[arg(long, env = "FLOE_ADVERTISE_ADDRESS", value_name = "ADDR")]
    advertise_address: Option<IpAddr>,

    #[command(flatten)]
    extender: extender::ExtenderFlags,

    /// Address and port that serve /healthz, /readyz, /version and /metrics
    #[arg(
        long, env = "FLOE_HEALTH_ADDR", value_name = "ADDR:PORT",
        default_value_t = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 8080)),
    )]
    health_addr: SocketAddr,

    /// How log lines look
    #[arg(
        long,
        env = "FLOE_LOG_FORMAT",
        value_name = "FORMAT",
        default_value = "json"
    )]
    log_format: logs::Format,

    /// Which log lines are written: error, warn, info, debug or trace, also
    /// per module as in `info,floe_controller=debug` [default: info]
    #[arg(
        long, env = "FLOE_LOG_LEVEL", value_name = "FILTER",
        value_parser = logs::usable,
    )]
    log_level: Option<String>,

    /// Lead only while holding a lease, so that several replicas can run; with
    /// `--leader-elect=false` this process always leads
    #[arg(
        long, env = "FLOE_LEADER_ELECT", value_name = "BOOL",
        default_value = "true", default_missing_value = "true",
        num_args = 0..=1, require_equals = true,
        action = ArgAction::Set, value_parser = BoolishValueParser::new(),
    )]
    leader_elect: bool,

    /// How long other replicas wait for a silent leader before one takes over;
    /// whole seconds, longer than the renew deadline
    #[arg(
        long, env = "FLOE_LEADER_ELECT_LEASE_DURATION", value_name = "DURATION",
        default_value = "15s", value_parser = duration,
    )]
    leader_elect_lease_duration: Duration,

    /// How long a leader leads on when it cannot renew its lease; also how
    /// long the API server may be away before this process is not ready
    #[arg(
        long, env = "FLOE_LEADER_ELECT_RENEW_DEADLINE", value_name = "DURATION",
        default_value = "10s", value_parser = duration,
    )]
    leader_elect_renew_deadline: Duration,

    /// How long to wait between two looks at the lease
    #[arg(
        long, env = "FLOE_LEADER_ELECT_RETRY_PERIOD", value_name = "DURATION",
        default_value = "2s", value_parser = duration,
    )]
    leader_elect_retry_period: Duration,

    /// Namespace of the lease
    #[arg(
        long, env = "FLOE_LEADER_ELECT_RESOURCE_NAMESPACE", value_name = "NAME",
        default_value = "kube-system", value_parser = NonEmptyStringValueParser::new(),
    )]
    leader_elect_resource_namespace: String,

    // Compat: galaxy-ipam's lease, so that it and floe never lead together, as long
    // as galaxy-ipam locks by a lease (its default `endpointsleases` does).
    /// Name of the lease; the default is galaxy-ipam's, so that it and floe
    /// never lead at the same time
    #[arg(
        long, env = "FLOE_LEADER_ELECT_RESOURCE_NAME", value_name = "NAME",
        default_value = "galaxy-ipam", value_parser = NonEmptyStringValueParser::new(),
    )]
    leader_elect_resource_name: String,

    #[command(flatten)]
    api: api::ApiFlags,

    #[command(flatten)]
    scheduling: scheduling::SchedulingFlags,

    #[command(flatten)]
    webhook: webhook::WebhookFlags,

    #[command(flatten)]
    flipop: flipop::FlipopFlags,

    #[command(flatten)]
    klog: Klog,

    #[command(flatten)]
    ignored: galaxy::Ignored,
}

/// Where galaxy-ipam looks for its file.
const DEFAULT_FILE: &str = "/etc/galaxy/galaxy-ipam.json";

impl Flags {
    fn check(self) -> Result<Config, clap::Error> {
        let timing = Timing::new(
            self.leader_elect_lease_duration,
            self.leader_elect_renew_deadline,
            self.leader_elect_retry_period,
        )
        .map_err(|error| Self::command().error(ErrorKind::ValueValidation, error))?;
        let election = Election {
            namespace: self.leader_elect_resource_namespace,
            name: self.leader_elect_resource_name,
        };
        let extender = self
            .extender
            .check((self.bind, self.port).into(), self.advertise_address);
        let kubeconfig = self.kubeconfig.filter(|path| !path.is_empty());
        let default_level = if self.flipop.debug {
            "info,floe_controller=debug".to_owned()
        } else {
            self.klog.log_level("floe_controller")
        };
        Ok(Config {
            kubeconfig: kubeconfig.map(PathBuf::from),
            file: FilePath {
                explicit: self.config.is_some(),
                path: self.config.unwrap_or_else(|| DEFAULT_FILE.into()),
            },
            health_addr: match self.flipop.metrics_bind_addr {
                Some(addr) => addr,
                None => HealthAddress::At(self.health_addr),
            },
            api: self.api.check(self.bind, &election.namespace),
            webhook: self.webhook.check(self.bind, &election.namespace),
            extender,
            scheduling: self.scheduling.settings(),
            log_format: self.log_format,
            log_level: self.log_level.unwrap_or(default_level),
            float_ips: self.flipop.float_ips,
            node_pools: self.flipop.node_pools,
            election: self.leader_elect.then_some(election),
            timing,
        })
    }
}

fn duration(value: &str) -> Result<Duration, String> {
    let hint = || "expected a duration such as 15s, 1m30s or 500ms".to_owned();
    let signed: SignedDuration = value.parse().map_err(|_| hint())?;
    Duration::try_from(signed).map_err(|_| hint())
}

#[cfg(test)]
mod tests;
