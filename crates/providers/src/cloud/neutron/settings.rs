//! Who floe is to an `OpenStack`, from the variables that all its tools read.

use serde_json::{Value, json};

use crate::{
    cloud::query::{Environment, option, secret},
    http::Secret,
};

/// The prefix of `spec.providerID` that the cloud provider of `OpenStack` writes.
const PROVIDER: &str = "openstack:///";

/// Everything that is set.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How to get in.
    pub entry: Entry,
    /// What stands before a server's id in `spec.providerID`.
    pub provider: String,
}

/// How to get in.
#[derive(Clone, Debug)]
pub enum Entry {
    /// By a token of Keystone, which also knows where Neutron is.
    Keystone(Account),
    /// Without: a Neutron that believes what it is told.
    Open {
        /// Where it is.
        endpoint: String,
        /// Whose addresses are meant.
        project: String,
    },
}

/// An account in Keystone.
#[derive(Clone, Debug)]
pub struct Account {
    /// The address of Keystone, without its version.
    pub url: String,
    /// Who it is.
    pub identity: Identity,
    /// Which of the regions, if there are several.
    pub region: Option<String>,
    /// Which of the addresses of Neutron: public, internal or admin.
    pub interface: String,
}

/// Who it is, and how that is proven.
#[derive(Clone, Debug)]
pub enum Identity {
    /// A user with a password, in a project.
    Password {
        /// By id, or by name in a domain.
        user: Named,
        /// The proof.
        password: Secret,
        /// By id, or by name in a domain.
        project: Named,
    },
    /// An application credential, which belongs to a project.
    Application {
        /// By id, or by name.
        id: Result<String, String>,
        /// Whose it is; needed for one that is given by its name.
        user: Option<Named>,
        /// The proof.
        secret: Secret,
    },
}

/// A user or a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// By its id.
    Id(String),
    /// By its name, in a domain.
    Name(String, Domain),
}

/// A domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Domain {
    /// By its id.
    Id(String),
    /// By its name.
    Name(String),
}

impl Settings {
    /// What the environment says; `None` when it says nothing of an `OpenStack`.
    ///
    /// # Errors
    /// When something is missing or cannot be used, by the names of the variables.
    pub fn read(environment: Environment<'_>) -> Result<Option<Self>, String> {
        let get = |name: &str| option(environment, name);
        let need = |name: &str| get(name).ok_or_else(|| format!("{name} is missing"));
        let kind = get("OS_AUTH_TYPE");
        let entry = match kind.as_deref() {
            Some("none" | "noauth") => Entry::Open {
                endpoint: need("OS_ENDPOINT")?,
                project: need("OS_PROJECT_ID")?,
            },
            None if get("OS_AUTH_URL").is_none() => return Ok(None),
            None | Some("password" | "v3password") => {
                let application = get("OS_APPLICATION_CREDENTIAL_ID").is_some()
                    || get("OS_APPLICATION_CREDENTIAL_NAME").is_some();
                let identity = if kind.is_none() && application {
                    application_credential(environment)?
                } else {
                    password(environment)?
                };
                account(environment, identity)?
            }
            Some("v3applicationcredential") => {
                account(environment, application_credential(environment)?)?
            }
            Some(other) => {
                return Err(format!(
                    "OS_AUTH_TYPE is {other:?}: known are password, v3applicationcredential, none"
                ));
            }
        };
        let provider = get("OPENSTACK_PROVIDER_ID_PREFIX");
        Ok(Some(Self {
            entry,
            provider: provider.unwrap_or_else(|| PROVIDER.to_owned()),
        }))
    }
}

fn account(environment: Environment<'_>, identity: Identity) -> Result<Entry, String> {
    let get = |name: &str| option(environment, name);
    if get("OS_CACERT").is_some() {
        return Err(
            "OS_CACERT is not read: name the file with all authorities in SSL_CERT_FILE".to_owned(),
        );
    }
    let url = get("OS_AUTH_URL").ok_or("OS_AUTH_URL is missing")?;
    let url = url.trim_end_matches('/');
    let interface = get("OS_INTERFACE").unwrap_or_else(|| "public".to_owned());
    // The old names end with `URL`.
    let interface = interface.trim_end_matches("URL").to_owned();
    Ok(Entry::Keystone(Account {
        url: url.strip_suffix("/v3").unwrap_or(url).to_owned(),
        identity,
        region: get("OS_REGION_NAME"),
        interface,
    }))
}

fn password(environment: Environment<'_>) -> Result<Identity, String> {
    let user = named(environment, "OS_USER_ID", "OS_USERNAME", "OS_USER_DOMAIN")?;
    let project = named(
        environment,
        "OS_PROJECT_ID",
        "OS_PROJECT_NAME",
        "OS_PROJECT_DOMAIN",
    )?;
    let password = secret(environment, "OS_PASSWORD")?;
    Ok(Identity::Password {
        user: user.ok_or("OS_USERNAME or OS_USER_ID is missing")?,
        project: project.ok_or("OS_PROJECT_NAME or OS_PROJECT_ID is missing")?,
        password: password.ok_or("OS_PASSWORD or OS_PASSWORD_FILE is missing")?,
    })
}

fn application_credential(environment: Environment<'_>) -> Result<Identity, String> {
    let user = named(environment, "OS_USER_ID", "OS_USERNAME", "OS_USER_DOMAIN")?;
    let id = match (
        option(environment, "OS_APPLICATION_CREDENTIAL_ID"),
        option(environment, "OS_APPLICATION_CREDENTIAL_NAME"),
    ) {
        (Some(id), _) => Ok(id),
        (None, Some(_)) if user.is_none() => {
            return Err(
                "OS_APPLICATION_CREDENTIAL_NAME needs OS_USERNAME or OS_USER_ID too".to_owned(),
            );
        }
        (None, Some(name)) => Err(name),
        (None, None) => return Err("OS_APPLICATION_CREDENTIAL_ID is missing".to_owned()),
    };
    let secret = secret(environment, "OS_APPLICATION_CREDENTIAL_SECRET")?;
    Ok(Identity::Application {
        id,
        user,
        secret: secret.ok_or(
            "OS_APPLICATION_CREDENTIAL_SECRET or OS_APPLICATION_CREDENTIAL_SECRET_FILE is missing",
        )?,
    })
}

fn named(
    environment: Environment<'_>,
    id: &str,
    name: &str,
    domain: &str,
) -> Result<Option<Named>, String> {
    if let Some(id) = option(environment, id) {
        return Ok(Some(Named::Id(id)));
    }
    let Some(text) = option(environment, name) else {
        return Ok(None);
    };
    let own = |suffix: &str| option(environment, &format!("{domain}_{suffix}"));
    let usual = |suffix: &str| option(environment, &format!("OS_DEFAULT_DOMAIN_{suffix}"));
    let found = own("ID")
        .map(Domain::Id)
        .or_else(|| own("NAME").map(Domain::Name))
        .or_else(|| usual("ID").map(Domain::Id))
        .or_else(|| usual("NAME").map(Domain::Name));
    match found {
        Some(found) => Ok(Some(Named::Name(text, found))),
        None => Err(format!("{name} needs {domain}_NAME or {domain}_ID")),
    }
}

impl Identity {
    /// The request for a token.
    pub fn request(&self) -> Value {
        match self {
            Self::Password {
                user,
                password,
                project,
            } => {
                let mut proven = user.show();
                proven["password"] = json!(password.expose());
                json!({ "auth": {
                    "identity": { "methods": ["password"], "password": { "user": proven } },
                    "scope": { "project": project.show() },
                }})
            }
            Self::Application { id, user, secret } => {
                let mut proven = match id {
                    Ok(id) => json!({ "id": id }),
                    Err(name) => json!({ "name": name }),
                };
                if id.is_err()
                    && let Some(user) = user
                {
                    proven["user"] = user.show();
                }
                proven["secret"] = json!(secret.expose());
                json!({ "auth": { "identity": {
                    "methods": ["application_credential"],
                    "application_credential": proven,
                }}})
            }
        }
    }
}

impl Named {
    fn show(&self) -> Value {
        match self {
            Self::Id(id) => json!({ "id": id }),
            Self::Name(name, Domain::Id(id)) => json!({ "name": name, "domain": { "id": id } }),
            Self::Name(name, Domain::Name(domain)) => {
                json!({ "name": name, "domain": { "name": domain } })
            }
        }
    }
}
