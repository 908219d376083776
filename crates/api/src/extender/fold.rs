//! Objects whose member names count in any case, as they do for Go.

use std::{borrow::Cow, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};

/// A struct that takes its members one by one. The last of several wins.
pub trait Members<'de>: Default {
    /// Completes "expected ...".
    const WHAT: &'static str;

    /// Takes the value of this member, or [`skip`]s it.
    fn take<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error>;
}

/// Reads an object.
pub fn object<'de, T: Members<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_map(Taking(PhantomData))
}

/// Whether a member is the one with this name.
pub fn is(member: &str, name: &str) -> bool {
    member.eq_ignore_ascii_case(name)
}

/// Passes over the value of a member.
pub fn skip<'de, A: MapAccess<'de>>(map: &mut A) -> Result<(), A::Error> {
    map.next_value::<IgnoredAny>().map(drop)
}

/// Text that is borrowed from the body unless it has escapes. Serde does that
/// for a lone `Cow`, but not for one in a list or a map.
#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(transparent)]
pub struct Text<'a>(#[serde(borrow)] pub Cow<'a, str>);

struct Taking<T>(PhantomData<T>);

impl<'de, T: Members<'de>> Visitor<'de> for Taking<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::WHAT)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let mut object = T::default();
        while let Some(Text(name)) = map.next_key()? {
            object.take(&name, &mut map)?;
        }
        Ok(object)
    }
}
