//! How the API server is answered that asks about objects.

use std::net::SocketAddr;

use clap::{ArgAction, Args, builder::BoolishValueParser};

use super::api::object_name;

/// How the API server is answered that asks about objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookSettings {
    /// Where its questions are taken.
    pub addr: SocketAddr,
    /// The namespace of the Secret, of the service, and of floe's accounts.
    pub namespace: String,
    /// The Secret with the certificate.
    pub secret: String,
}

/// The flags of the admission webhook.
#[derive(Debug, Args)]
#[command(next_help_heading = "Admission webhook")]
pub struct WebhookFlags {
    /// Answer the API server when it asks about objects before it stores them; which
    /// ones, the webhook configurations of the chart say
    #[arg(
        long, env = "FLOE_WEBHOOK", value_name = "BOOL",
        default_value = "true", default_missing_value = "true",
        num_args = 0..=1, require_equals = true,
        action = ArgAction::Set, value_parser = BoolishValueParser::new(),
    )]
    webhook: bool,

    /// Port of the webhook
    // No variable, for the same reason as for --port.
    #[arg(long, value_name = "PORT", default_value_t = 9443)]
    webhook_port: u16,

    /// Secret in which floe keeps the certificates of the webhook, as NAME or as
    /// NAMESPACE/NAME [default namespace: that of the lease]
    #[arg(
        long, env = "FLOE_WEBHOOK_SECRET", value_name = "NAME",
        default_value = "floe-webhook-tls", value_parser = object_name,
    )]
    webhook_secret: String,
}

impl WebhookFlags {
    /// The settings, with what other flags say: the address to listen on, and the
    /// namespace of the lease. None if nobody is to be answered.
    pub fn check(self, bind: std::net::IpAddr, namespace: &str) -> Option<WebhookSettings> {
        let (namespace, secret) = match self.webhook_secret.split_once('/') {
            Some((namespace, secret)) => (namespace, secret),
            None => (namespace, self.webhook_secret.as_str()),
        };
        self.webhook.then(|| WebhookSettings {
            addr: (bind, self.webhook_port).into(),
            namespace: namespace.to_owned(),
            secret: secret.to_owned(),
        })
    }
}
