//! How to reach the management API of the controller.

use std::{path::PathBuf, str::FromStr};

use clap::Args as ClapArgs;

/// How to reach the management API: through a port-forward, with the user's token.
#[derive(Clone, Debug, ClapArgs)]
#[command(next_help_heading = "Management API")]
pub struct ApiAccess {
    /// Ask with a token of this service account, for users who have no token
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub as_service_account: Option<Account>,
    /// The namespace of the controller
    #[arg(long, value_name = "NAME", default_value = "kube-system")]
    pub floe_namespace: String,
    /// Whom to trust (PEM); else what the controller shows in the config map floe-api-ca
    #[arg(long, value_name = "FILE")]
    pub api_ca_file: Option<PathBuf>,
    /// The name in the controller's certificate; else that of its service
    #[arg(long, value_name = "NAME")]
    pub api_server_name: Option<String>,
}

/// A service account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl FromStr for Account {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('/') {
            Some((namespace, name))
                if !namespace.is_empty() && !name.is_empty() && !name.contains('/') =>
            {
                Ok(Self {
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                })
            }
            _ => Err("expected NAMESPACE/NAME"),
        }
    }
}
