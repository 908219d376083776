//! Queries in paths, and secrets and options in the environment.

use reqwest::Url;

use crate::http::Secret;

/// What an environment says of a name: `None` when it says nothing.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A path with a query of these pairs.
pub(crate) fn with_query(path: &str, pairs: &[(&str, &str)]) -> String {
    let mut url = Url::parse("http://host").expect("it is an address");
    url.query_pairs_mut().extend_pairs(pairs);
    format!("{path}?{}", url.query().unwrap_or_default())
}

/// An option; an empty one is none.
pub(crate) fn option(environment: Environment<'_>, name: &str) -> Option<String> {
    let value = environment(name)?;
    let value = value.trim();
    (!value.is_empty()).then(|| value.to_owned())
}

/// A secret: `NAME` itself, or what is in the file that `NAME_FILE` names.
pub(crate) fn secret(environment: Environment<'_>, name: &str) -> Result<Option<Secret>, String> {
    if let Some(value) = option(environment, name) {
        return Ok(Some(Secret::new(&value)));
    }
    let file = format!("{name}_FILE");
    let Some(path) = option(environment, &file) else {
        return Ok(None);
    };
    let text = std::fs::read_to_string(&path)
        .map_err(|error| format!("{file}: cannot read {path}: {error}"))?;
    if text.trim().is_empty() {
        return Err(format!("{file}: {path} is empty"));
    }
    Ok(Some(Secret::new(&text)))
}

/// A switch, which is off unless it is set to `true`.
pub(crate) fn switch(environment: Environment<'_>, name: &str) -> Result<bool, String> {
    match option(environment, name).as_deref() {
        None | Some("false" | "0") => Ok(false),
        Some("true" | "1") => Ok(true),
        Some(other) => Err(format!("{name}: {other:?} is neither true nor false")),
    }
}
