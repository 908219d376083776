//! The deserializer around that of `serde_json`, and the visitor that it hands down.

use std::{borrow::Cow, cell::RefCell, fmt};

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, Visitor,
};

use super::{
    access::{Elements, Entries, Variant},
    context::Context,
    failure::Failure,
    object::ObjectVisitor,
};

/// Reads as the deserializer in it does, except for objects.
pub(super) struct Decoder<'c, D> {
    inner: D,
    context: &'c Context,
    /// Where the text of a key is noted.
    key: Option<&'c RefCell<String>>,
}

impl<'c, D> Decoder<'c, D> {
    /// Reads a value.
    pub fn new(inner: D, context: &'c Context) -> Self {
        Self {
            inner,
            context,
            key: None,
        }
    }

    /// Reads a key, and notes its text.
    pub fn of_key(inner: D, context: &'c Context, key: &'c RefCell<String>) -> Self {
        Self {
            inner,
            context,
            key: Some(key),
        }
    }

    fn read<'de, V: Visitor<'de>, E: Error>(
        self,
        visitor: V,
        read: impl FnOnce(D, Watched<'c, V>) -> Result<V::Value, E>,
    ) -> Result<V::Value, Failure> {
        let Self {
            inner,
            context,
            key,
        } = self;
        let watched = Watched {
            visitor,
            context,
            key,
        };
        read(inner, watched).map_err(|error| context.failure(error))
    }
}

macro_rules! forward {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
            self.read(visitor, |inner, visitor| inner.$method(visitor))
        }
    )*};
}

/// JSON says itself what it has, so the visitor refuses what does not fit, in our words. A
/// key is always a string: there the parser has to know whether it is to be a number.
macro_rules! describe {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
            let is_key = self.key.is_some();
            self.read(visitor, |inner, visitor| {
                if is_key {
                    inner.$method(visitor)
                } else {
                    inner.deserialize_any(visitor)
                }
            })
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Decoder<'_, D> {
    type Error = Failure;

    forward! {
        deserialize_any deserialize_i128 deserialize_u128 deserialize_bytes
        deserialize_byte_buf deserialize_option deserialize_unit deserialize_ignored_any
    }

    describe! {
        deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_f32
        deserialize_f64 deserialize_char deserialize_str deserialize_string deserialize_seq
        deserialize_map deserialize_identifier
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Failure> {
        let Self { inner, context, .. } = self;
        let object = ObjectVisitor::new(fields, visitor, context);
        // Not as a struct, for which the parser would take an array as well.
        let visited = inner.deserialize_any(object);
        visited.map_err(|error| context.failure(error))
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Failure> {
        self.read(visitor, |inner, visitor| {
            inner.deserialize_unit_struct(name, visitor)
        })
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Failure> {
        self.read(visitor, |inner, visitor| {
            inner.deserialize_newtype_struct(name, visitor)
        })
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, Failure> {
        self.read(visitor, |inner, visitor| {
            inner.deserialize_tuple(length, visitor)
        })
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, Failure> {
        self.read(visitor, |inner, visitor| {
            inner.deserialize_tuple_struct(name, length, visitor)
        })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Failure> {
        self.read(visitor, |inner, visitor| {
            inner.deserialize_enum(name, variants, visitor)
        })
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

/// A seed whose deserializer is a [`Decoder`] again.
pub(super) struct Seed<'c, S> {
    pub seed: S,
    pub context: &'c Context,
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Seed<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        let Self { seed, context } = self;
        let read = seed.deserialize(Decoder::new(deserializer, context));
        read.map_err(|failure| context.hold(failure))
    }
}

/// A visitor that gets everything below it through a [`Decoder`].
pub(super) struct Watched<'c, V> {
    visitor: V,
    context: &'c Context,
    key: Option<&'c RefCell<String>>,
}

impl<'c, V> Watched<'c, V> {
    /// A visitor of a value.
    pub fn new(visitor: V, context: &'c Context) -> Self {
        Self {
            visitor,
            context,
            key: None,
        }
    }

    fn note(&self, text: &str) {
        if let Some(key) = self.key {
            let mut key = key.borrow_mut();
            key.clear();
            key.push_str(text);
        }
    }
}

macro_rules! visit {
    ($($method:ident($kind:ty))*) => {$(
        fn $method<E: Error>(self, value: $kind) -> Result<V::Value, E> {
            let Self { visitor, context, .. } = self;
            visitor.$method::<Failure>(value).map_err(|failure| context.hold(failure))
        }
    )*};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Watched<'_, V> {
    type Value = V::Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(out)
    }

    visit! {
        visit_bool(bool) visit_i64(i64) visit_i128(i128) visit_u64(u64) visit_u128(u128)
        visit_f64(f64) visit_string(String)
        visit_bytes(&[u8]) visit_borrowed_bytes(&'de [u8]) visit_byte_buf(Vec<u8>)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<V::Value, E> {
        self.note(text);
        let visited = self.visitor.visit_str::<Failure>(text);
        visited.map_err(|failure| self.context.hold(failure))
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<V::Value, E> {
        self.note(text);
        let visited = self.visitor.visit_borrowed_str::<Failure>(text);
        visited.map_err(|failure| self.context.hold(failure))
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        let Self {
            visitor, context, ..
        } = self;
        let visited = visitor.visit_none::<Failure>();
        visited.map_err(|failure| context.hold(failure))
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        let Self {
            visitor, context, ..
        } = self;
        let visited = visitor.visit_unit::<Failure>();
        visited.map_err(|failure| context.hold(failure))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        let Self {
            visitor, context, ..
        } = self;
        let visited = visitor.visit_some(Decoder::new(deserializer, context));
        visited.map_err(|failure| context.hold(failure))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<V::Value, D::Error> {
        let Self {
            visitor, context, ..
        } = self;
        let visited = visitor.visit_newtype_struct(Decoder::new(deserializer, context));
        visited.map_err(|failure| context.hold(failure))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, elements: A) -> Result<V::Value, A::Error> {
        let Self {
            visitor, context, ..
        } = self;
        let visited = visitor.visit_seq(Elements::new(elements, context));
        visited.map_err(|failure| context.hold(failure))
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<V::Value, A::Error> {
        let Self {
            visitor, context, ..
        } = self;
        let visited = visitor.visit_map(Entries::new(entries, context));
        visited.map_err(|failure| context.hold(failure))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, variant: A) -> Result<V::Value, A::Error> {
        let Self {
            visitor, context, ..
        } = self;
        let visited = visitor.visit_enum(Variant::new(variant, context));
        visited.map_err(|failure| context.hold(failure))
    }
}

/// A name in the text, borrowed from it unless it has escapes.
pub(super) struct Name<'de>(pub Cow<'de, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl<'de> Visitor<'de> for Text {
            type Value = Name<'de>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("the name of a member")
            }

            fn visit_borrowed_str<E: Error>(self, name: &'de str) -> Result<Name<'de>, E> {
                Ok(Name(name.into()))
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<Name<'de>, E> {
                Ok(Name(name.to_owned().into()))
            }
        }

        deserializer.deserialize_str(Text)
    }
}
