//! How the scheduler is answered, and which callers are taken for it.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
};

use clap::{ArgAction, Args};
use floe_core::schedule::caller::Source;

use super::TlsFiles;

/// How the scheduler is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtenderSettings {
    /// Where its calls are taken.
    pub addr: SocketAddr,
    /// Where other replicas reach this one; `None`: the replica finds out by itself.
    pub advertise: Option<IpAddr>,
    /// The files for TLS; `None`: plain HTTP.
    pub tls: Option<TlsFiles>,
    /// From where calls are accepted; one entry has to match.
    pub allow_from: Vec<Source>,
    /// The file with the token that callers have to send.
    pub token_file: Option<PathBuf>,
}

/// The flags of the scheduler extender.
#[derive(Debug, Args)]
#[command(next_help_heading = "Scheduler extender")]
#[expect(
    clippy::struct_field_names,
    reason = "fields have the names of their flags"
)]
pub struct ExtenderFlags {
    /// From where the scheduler may call: `control-plane` (addresses of control-plane nodes and
    /// of API servers), `any`, an IP address or a network; can be given several times, or with
    /// commas [default: control-plane; any with a client CA or a token]
    #[arg(
        long,
        env = "FLOE_EXTENDER_ALLOW_FROM",
        value_name = "SOURCE",
        value_delimiter = ',',
        action = ArgAction::Append
    )]
    extender_allow_from: Vec<Source>,

    /// File with a token that callers have to send, as password in urlPrefix
    /// (`http://floe:TOKEN@ADDRESS:9040/v1`) or as bearer token; the same for all replicas. A
    /// changed file is in force within a minute
    #[arg(long, env = "FLOE_EXTENDER_TOKEN_FILE", value_name = "FILE")]
    extender_token_file: Option<PathBuf>,

    /// Certificate (PEM, with its chain) to serve the scheduler extender over TLS;
    /// the same for all replicas. Changed files are in force within a minute
    #[arg(
        long,
        env = "FLOE_EXTENDER_TLS_CERT_FILE",
        value_name = "FILE",
        requires = "extender_tls_key_file"
    )]
    extender_tls_cert_file: Option<PathBuf>,

    /// Private key (PEM) of that certificate
    #[arg(
        long,
        env = "FLOE_EXTENDER_TLS_KEY_FILE",
        value_name = "FILE",
        requires = "extender_tls_cert_file"
    )]
    extender_tls_key_file: Option<PathBuf>,

    /// Certificates (PEM) that sign those of clients. With it, only clients
    /// with such a certificate are answered, and other replicas
    #[arg(
        long,
        env = "FLOE_EXTENDER_CLIENT_CA_FILE",
        value_name = "FILE",
        requires = "extender_tls_cert_file"
    )]
    extender_client_ca_file: Option<PathBuf>,
}

impl ExtenderFlags {
    /// The settings, with the addresses that other flags set. A client certificate or a token
    /// proves more than an address, so without a list of sources either of them suffices; a
    /// list that is given holds in addition.
    pub fn check(self, addr: SocketAddr, advertise: Option<IpAddr>) -> ExtenderSettings {
        let is_proven =
            self.extender_client_ca_file.is_some() || self.extender_token_file.is_some();
        let mut allow_from = self.extender_allow_from;
        if allow_from.is_empty() {
            let default = if is_proven {
                Source::Any
            } else {
                Source::ControlPlane
            };
            allow_from.push(default);
        }
        let files = self.extender_tls_cert_file.zip(self.extender_tls_key_file);
        ExtenderSettings {
            addr,
            advertise,
            tls: files.map(|(cert, key)| TlsFiles {
                cert,
                key,
                client_ca: self.extender_client_ca_file,
            }),
            allow_from,
            token_file: self.extender_token_file,
        }
    }
}
