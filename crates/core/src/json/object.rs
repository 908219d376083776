//! Objects whose members are those of a type.

use std::{borrow::Cow, fmt};

use serde::de::{
    DeserializeSeed, Error, MapAccess, SeqAccess, Unexpected, Visitor,
    value::{MapDeserializer, StrDeserializer},
};
use serde_json::value::RawValue;

use super::{
    Names,
    context::{Context, Step},
    decoder::{Decoder, Name, Seed},
    failure::Failure,
};
use crate::ipam::args::folded;

/// What is said in place of the name of a type.
const OBJECT: &str = "an object";

/// Takes an object for a type with these members, and nothing else.
pub(super) struct ObjectVisitor<'c, V> {
    fields: &'static [&'static str],
    visitor: V,
    context: &'c Context,
}

impl<'c, V> ObjectVisitor<'c, V> {
    pub fn new(fields: &'static [&'static str], visitor: V, context: &'c Context) -> Self {
        Self {
            fields,
            visitor,
            context,
        }
    }

    fn refuse<T, E: Error>(&self, found: Unexpected<'_>) -> Result<T, E> {
        let failure = Failure::invalid_type(found, &OBJECT);
        Err(self.context.hold(failure))
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for ObjectVisitor<'_, V> {
    type Value = V::Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(OBJECT)
    }

    fn visit_map<A: MapAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        let Self {
            fields,
            visitor,
            context,
        } = self;
        let names = Fields { fields, context };
        let visited = if context.collects() {
            let members = names.collect(inner)?;
            visitor.visit_map(Collected {
                members: members.into_iter(),
                value: None,
                context,
            })
        } else {
            visitor.visit_map(Members {
                inner,
                names,
                seen: 0,
                name: String::new(),
            })
        };
        visited.map_err(|failure| context.hold(failure))
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        if self.context.names() == Names::Exact {
            return self.refuse(Unexpected::Unit);
        }
        let none = std::iter::empty::<(&str, &str)>();
        let visited = self.visitor.visit_map(MapDeserializer::new(none));
        visited.map_err(|failure: Failure| self.context.hold(failure))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<V::Value, A::Error> {
        self.refuse(Unexpected::Seq)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<V::Value, E> {
        self.refuse(Unexpected::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<V::Value, E> {
        self.refuse(Unexpected::Signed(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<V::Value, E> {
        self.refuse(Unexpected::Unsigned(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<V::Value, E> {
        self.refuse(Unexpected::Float(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<V::Value, E> {
        self.refuse(Unexpected::Str(value))
    }
}

/// The members that a type has.
#[derive(Clone, Copy)]
struct Fields<'c> {
    fields: &'static [&'static str],
    context: &'c Context,
}

impl Fields<'_> {
    /// Which member a name means.
    fn find(self, name: &str) -> Option<usize> {
        let exact = self.fields.iter().position(|field| *field == name);
        if exact.is_some() || self.context.names() == Names::Exact {
            return exact;
        }
        let same = |field: &str| {
            field.eq_ignore_ascii_case(name) || (!name.is_ascii() && folded(field) == folded(name))
        };
        self.fields.iter().position(|field| same(field))
    }

    /// All members in the order of the text, of several with one name only the last.
    fn collect<'de, A: MapAccess<'de>>(
        self,
        mut inner: A,
    ) -> Result<Vec<(Cow<'de, str>, &'de RawValue)>, A::Error> {
        let mut members = Vec::new();
        // Where the last member of each name is.
        let mut last: Vec<Option<usize>> = vec![None; self.fields.len()];
        while let Some(Name(name)) = inner.next_key()? {
            let value = inner.next_value()?;
            let field = self.find(&name);
            let name = field.map_or(name, |it| self.fields[it].into());
            if let Some(field) = field
                && let Some(earlier) = last[field].replace(members.len())
            {
                members[earlier] = None;
            }
            members.push(Some((name, value)));
        }
        Ok(members.into_iter().flatten().collect())
    }
}

/// Members as they come.
struct Members<'c, A> {
    inner: A,
    names: Fields<'c>,
    /// One bit for each member of the type that has come.
    seen: u128,
    name: String,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Members<'_, A> {
    type Error = Failure;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Failure> {
        let context = self.names.context;
        let next = self.inner.next_key();
        let Some(Name(name)) = next.map_err(|error| context.failure(error))? else {
            return Ok(None);
        };
        let mut name: &str = &name;
        if let Some(index) = self.names.find(name) {
            name = self.names.fields[index];
            // A type with more members finds repeated ones by itself.
            let bit = u32::try_from(index)
                .ok()
                .and_then(|it| 1_u128.checked_shl(it));
            let bit = bit.unwrap_or_default();
            if self.seen & bit != 0 {
                context.repeat();
                return Err(Failure::duplicate_field(self.names.fields[index]));
            }
            self.seen |= bit;
        }
        self.name.clear();
        self.name.push_str(name);
        seed.deserialize(StrDeserializer::new(name)).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Failure> {
        let Self {
            inner, names, name, ..
        } = self;
        let context = names.context;
        context.within(Step::Member(std::mem::take(name)), || {
            let read = inner.next_value_seed(Seed { seed, context });
            read.map_err(|error| context.failure(error))
        })
    }
}

/// Members that were collected before.
struct Collected<'de, 'c> {
    members: std::vec::IntoIter<(Cow<'de, str>, &'de RawValue)>,
    value: Option<(Cow<'de, str>, &'de RawValue)>,
    context: &'c Context,
}

impl<'de> MapAccess<'de> for Collected<'de, '_> {
    type Error = Failure;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Failure> {
        let Some((name, value)) = self.members.next() else {
            return Ok(None);
        };
        let key = seed.deserialize(StrDeserializer::new(&name))?;
        self.value = Some((name, value));
        Ok(Some(key))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Failure> {
        let (name, value) = self.value.take().expect("a value follows its key");
        let mut json = serde_json::Deserializer::from_str(value.get());
        let step = Step::Member(name.into_owned());
        let context = self.context;
        context.within(step, || seed.deserialize(Decoder::new(&mut json, context)))
    }
}
