//! How to reach the API server.

use std::path::{Path, PathBuf};

use http::Uri;
use kube::{
    Client, Config,
    config::{InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError},
};

/// Why no client for the API server could be made.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The file named by the flag is missing or wrong.
    #[error("cannot use the kubeconfig {}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: KubeconfigError,
    },
    /// No flag, and nothing usable in the surroundings.
    #[error("found neither a kubeconfig nor a pod's service account; set --kubeconfig")]
    Surroundings(#[source] InferConfigError),
    /// The configuration was read but makes no client.
    #[error("cannot make a client from the kubeconfig")]
    Client(#[source] kube::Error),
}

/// Makes a client, and tells the server's address; does not connect yet.
pub async fn make(kubeconfig: Option<PathBuf>) -> Result<(Client, Uri), ClientError> {
    let config = config(kubeconfig).await?;
    let server = config.cluster_url.clone();
    let client = Client::try_from(config).map_err(ClientError::Client)?;
    Ok((client, server))
}

/// Makes a client that tells at once what the server refuses for now (429, 503, 504), where
/// the other one tries again by itself.
pub async fn direct(kubeconfig: Option<PathBuf>) -> Result<Client, ClientError> {
    let mut config = config(kubeconfig).await?;
    config.default_retry = false;
    Client::try_from(config).map_err(ClientError::Client)
}

async fn config(kubeconfig: Option<PathBuf>) -> Result<Config, ClientError> {
    match kubeconfig {
        Some(path) => from_file(&path)
            .await
            .map_err(|source| ClientError::Kubeconfig { path, source }),
        None => Config::infer().await.map_err(ClientError::Surroundings),
    }
}

async fn from_file(path: &Path) -> Result<Config, KubeconfigError> {
    let kubeconfig = Kubeconfig::read_from(path)?;
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_missing_kubeconfig_is_named() {
        let error = make(Some("/nowhere/kubeconfig".into()))
            .await
            .err()
            .unwrap();
        assert!(error.to_string().contains("/nowhere/kubeconfig"), "{error}");
    }
}
