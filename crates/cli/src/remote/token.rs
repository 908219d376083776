//! By what the user is known: his token, wherever the kubeconfig has it from.

use http::{HeaderValue, Request, Response, header::AUTHORIZATION};
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{
    Api, Config,
    api::PostParams,
    client::{Body, ConfigExt as _},
};
use tower::{BoxError, Layer as _, ServiceExt as _, service_fn};

use crate::{
    args::Account,
    cluster::{Access, Cluster, chain, is_missing},
    failure::Failure,
};

/// How long a token for a service account lasts, in seconds: the least that is possible.
const LIFE: i64 = 600;

/// What a call is sent with.
#[derive(Clone, Debug)]
pub enum Bearer {
    /// A token, as the header has it.
    Token(HeaderValue),
    /// There is none. Only an open API answers then.
    Lacking {
        /// The context.
        context: String,
        /// Completes "there is no token: ...".
        why: &'static str,
    },
}

impl Bearer {
    /// The token of a service account if one is named, else that of the user.
    pub async fn of(cluster: &Cluster, account: Option<&Account>) -> Result<Self, Failure> {
        if let Some(account) = account {
            return requested(cluster, account).await.map(Self::Token);
        }
        let lacking = |why| Self::Lacking {
            context: cluster.context.clone(),
            why,
        };
        let user = &cluster.config.auth_info;
        // The token would be that of the one who impersonates, and he may do more.
        if user.impersonate.is_some() || user.impersonate_groups.is_some() {
            return Ok(lacking("the kubeconfig impersonates somebody else"));
        }
        if let Some(header) = header(&cluster.config).await? {
            return Ok(Self::Token(header));
        }
        let has_certificate =
            user.client_certificate.is_some() || user.client_certificate_data.is_some();
        Ok(lacking(if has_certificate {
            "the user is known by a client certificate"
        } else {
            "the kubeconfig has none for the user"
        }))
    }

    /// The header of calls.
    pub fn header(&self) -> Option<&HeaderValue> {
        match self {
            Self::Token(header) => Some(header),
            Self::Lacking { .. } => None,
        }
    }
}

/// The header that the client sends to the API server, if it is one with a token.
async fn header(config: &Config) -> Result<Option<HeaderValue>, Failure> {
    let layer = config.auth_layer();
    let layer = layer.map_err(|error| Failure::Kubeconfig(chain(&error)))?;
    let Some(layer) = layer else {
        return Ok(None);
    };
    // What would be sent comes back as it is.
    let mirror = service_fn(|request: Request<Body>| async move {
        let mut response = Response::new(Body::empty());
        *response.headers_mut() = request.headers().clone();
        Ok::<_, BoxError>(response)
    });
    let sent = layer.layer(mirror).oneshot(Request::new(Body::empty()));
    let sent = sent.await;
    let sent = sent.map_err(|error| Failure::Kubeconfig(chain(error.as_ref())))?;
    let sent = sent.headers().get(AUTHORIZATION).cloned();
    let is_token = |header: &HeaderValue| header.as_bytes().starts_with(b"Bearer ");
    Ok(sent.filter(is_token).map(|mut header| {
        header.set_sensitive(true);
        header
    }))
}

/// A token that the API server makes for a service account.
async fn requested(cluster: &Cluster, account: &Account) -> Result<HeaderValue, Failure> {
    let Account { namespace, name } = account;
    let api: Api<ServiceAccount> = Api::namespaced(cluster.client.clone(), namespace);
    let wanted = TokenRequest {
        spec: TokenRequestSpec {
            expiration_seconds: Some(LIFE),
            ..TokenRequestSpec::default()
        },
        ..TokenRequest::default()
    };
    let params = PostParams::default();
    let made = api.create_token_request(name, &params, &wanted).await;
    let made = made.map_err(|error| {
        if is_missing(&error) {
            return Failure::NoSuch {
                kind: "service account",
                name: name.clone(),
                namespace: Some(namespace.clone()),
                hint: Some(format!(
                    "kubectl -n {namespace} create serviceaccount {name}"
                )),
            };
        }
        let access = Access {
            verb: "create",
            resource: "serviceaccounts/token",
            namespace: Some(namespace),
        };
        cluster.failure(&error, access)
    })?;
    let token = made.status.map(|status| status.token).unwrap_or_default();
    let header = HeaderValue::try_from(format!("Bearer {token}"));
    let mut header = header.map_err(|_| Failure::Unprintable("the token is no text".into()))?;
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests;
