//! The parameters of a call: each at most once, and none that nobody knows.

use std::{collections::BTreeMap, convert::Infallible, fmt::Display, str::FromStr};

use axum::{
    extract::{FromRequestParts, Query},
    http::request::Parts,
};

use super::problem::Refused;

/// The largest page.
pub const LARGEST_PAGE: u32 = 1000;

/// How many a page has if nobody says.
const USUAL_PAGE: u32 = 50;

/// The parameters that nobody has taken yet.
#[derive(Debug)]
pub struct Parameters(Result<BTreeMap<String, String>, Refused>);

/// Which page of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its number, from 0 on.
    pub number: u32,
    /// How many it has.
    pub size: u32,
}

impl Parameters {
    /// Has the parameters read by `read`, who takes those that he knows. Whatever is
    /// left then is refused.
    pub fn read<R>(
        self,
        read: impl FnOnce(&mut BTreeMap<String, String>) -> Result<R, Refused>,
    ) -> Result<R, Refused> {
        let mut all = self.0?;
        let read = read(&mut all)?;
        match all.into_keys().next() {
            None => Ok(read),
            Some(unknown) => Err(Refused::parameter(unknown, "there is no such parameter")),
        }
    }
}

impl Page {
    /// Takes the parameters `page` and `size`.
    pub fn take(all: &mut BTreeMap<String, String>) -> Result<Self, Refused> {
        let number = take(all, "page")?.unwrap_or(0);
        let size = take(all, "size")?.unwrap_or(USUAL_PAGE);
        if !(1..=LARGEST_PAGE).contains(&size) {
            let why = format!("it must be from 1 to {LARGEST_PAGE}");
            return Err(Refused::parameter("size", why));
        }
        Ok(Self { number, size })
    }

    /// How many come before it.
    pub fn offset(self) -> u64 {
        u64::from(self.number) * u64::from(self.size)
    }
}

/// Takes a parameter that is more than a text.
pub fn take<T: FromStr<Err: Display>>(
    all: &mut BTreeMap<String, String>,
    name: &str,
) -> Result<Option<T>, Refused> {
    let Some(text) = all.remove(name) else {
        return Ok(None);
    };
    let value = text.parse().map_err(|error| {
        let why = format!("{text:?} will not do: {error}");
        Refused::parameter(name, why)
    })?;
    Ok(Some(value))
}

impl<S: Sync> FromRequestParts<S> for Parameters {
    /// What is wrong is told when somebody reads them: who may not call at all
    /// learns that first.
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let pairs = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri);
        let pairs = pairs.map_err(|rejection| {
            let status = axum::http::StatusCode::BAD_REQUEST;
            Refused::new(status, "InvalidParameter", rejection.body_text())
        });
        Ok(Self(pairs.and_then(|Query(pairs)| {
            let mut all = BTreeMap::new();
            for (name, value) in pairs {
                if all.insert(name.clone(), value).is_some() {
                    return Err(Refused::parameter(name, "it is given more than once"));
                }
            }
            Ok(all)
        })))
    }
}
