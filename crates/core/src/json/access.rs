//! Elements, entries of maps and variants, each read through a decoder again.

use std::cell::RefCell;

use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor,
};

use super::{
    context::{Context, Step},
    decoder::{Decoder, Seed, Watched},
    failure::Failure,
};

/// The elements of an array.
pub(super) struct Elements<'c, A> {
    inner: A,
    context: &'c Context,
    next: usize,
}

impl<'c, A> Elements<'c, A> {
    pub fn new(inner: A, context: &'c Context) -> Self {
        Self {
            inner,
            context,
            next: 0,
        }
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Elements<'_, A> {
    type Error = Failure;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Failure> {
        let Self {
            inner,
            context,
            next,
        } = self;
        let context = *context;
        let element = context.within(Step::Element(*next), || {
            let read = inner.next_element_seed(Seed { seed, context });
            read.map_err(|error| context.failure(error))
        });
        *next += 1;
        element
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

/// The entries of an object whose names are data: a map, or a type that reads its members
/// by itself.
pub(super) struct Entries<'c, A> {
    inner: A,
    context: &'c Context,
    name: RefCell<String>,
}

impl<'c, A> Entries<'c, A> {
    pub fn new(inner: A, context: &'c Context) -> Self {
        Self {
            inner,
            context,
            name: RefCell::default(),
        }
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Entries<'_, A> {
    type Error = Failure;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Failure> {
        let Self {
            inner,
            context,
            name,
        } = self;
        let key = KeySeed {
            seed,
            context,
            name,
        };
        let read = inner.next_key_seed(key);
        read.map_err(|error| context.failure(error))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Failure> {
        let Self {
            inner,
            context,
            name,
        } = self;
        let context = *context;
        context.within(Step::Member(name.take()), || {
            let read = inner.next_value_seed(Seed { seed, context });
            read.map_err(|error| context.failure(error))
        })
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

/// A key of a map, whose text is noted for the place of a failure in its value.
struct KeySeed<'a, K> {
    seed: K,
    context: &'a Context,
    name: &'a RefCell<String>,
}

impl<'de, K: DeserializeSeed<'de>> DeserializeSeed<'de> for KeySeed<'_, K> {
    type Value = K::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<K::Value, D::Error> {
        let Self {
            seed,
            context,
            name,
        } = self;
        let read = seed.deserialize(Decoder::of_key(deserializer, context, name));
        read.map_err(|failure| context.hold(failure))
    }
}

/// The variant of an enum.
pub(super) struct Variant<'c, A> {
    inner: A,
    context: &'c Context,
}

impl<'c, A> Variant<'c, A> {
    pub fn new(inner: A, context: &'c Context) -> Self {
        Self { inner, context }
    }
}

impl<'de, 'c, A: EnumAccess<'de>> EnumAccess<'de> for Variant<'c, A> {
    type Error = Failure;
    type Variant = Content<'c, A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<(S::Value, Self::Variant), Failure> {
        let Self { inner, context } = self;
        let read = inner.variant_seed(Seed { seed, context });
        let (variant, inner) = read.map_err(|error| context.failure(error))?;
        Ok((variant, Content { inner, context }))
    }
}

/// What a variant contains.
pub(super) struct Content<'c, A> {
    inner: A,
    context: &'c Context,
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Content<'_, A> {
    type Error = Failure;

    fn unit_variant(self) -> Result<(), Failure> {
        let read = self.inner.unit_variant();
        read.map_err(|error| self.context.failure(error))
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Failure> {
        let Self { inner, context } = self;
        let read = inner.newtype_variant_seed(Seed { seed, context });
        read.map_err(|error| context.failure(error))
    }

    fn tuple_variant<V: Visitor<'de>>(
        self,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, Failure> {
        let Self { inner, context } = self;
        let read = inner.tuple_variant(length, Watched::new(visitor, context));
        read.map_err(|error| context.failure(error))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Failure> {
        // The parser would take an array here, too.
        self.newtype_variant_seed(StructSeed { fields, visitor })
    }
}

struct StructSeed<V> {
    fields: &'static [&'static str],
    visitor: V,
}

impl<'de, V: Visitor<'de>> DeserializeSeed<'de> for StructSeed<V> {
    type Value = V::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        deserializer.deserialize_struct("", self.fields, self.visitor)
    }
}
