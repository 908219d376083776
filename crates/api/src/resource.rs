//! What all kinds of floe are to a client: a name, a group, and metadata.

/// Makes a structure with `metadata` a kind that clients can use. With `spec` and `status`
/// at the end it is also written as such an object: kind and version are members, as the API
/// server demands of what it is sent.
macro_rules! resource {
    ($kind:ident, $plural:literal, $scope:ty) => {
        impl kube::Resource for $kind {
            type DynamicType = ();
            type Scope = $scope;

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                stringify!($kind).into()
            }

            fn group((): &()) -> std::borrow::Cow<'_, str> {
                super::GROUP.into()
            }

            fn version((): &()) -> std::borrow::Cow<'_, str> {
                super::VERSION.into()
            }

            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(
                &mut self,
            ) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &mut self.metadata
            }
        }
    };
    ($kind:ident, $plural:literal, $scope:ty, spec, status) => {
        $crate::resource::resource!($kind, $plural, $scope);

        impl serde::Serialize for $kind {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeStruct as _;
                let members = 4 + usize::from(self.status.is_some());
                let mut object = serializer.serialize_struct(stringify!($kind), members)?;
                object.serialize_field("apiVersion", super::API_VERSION)?;
                object.serialize_field("kind", stringify!($kind))?;
                object.serialize_field("metadata", &self.metadata)?;
                object.serialize_field("spec", &self.spec)?;
                match &self.status {
                    Some(status) => object.serialize_field("status", status)?,
                    None => object.skip_field("status")?,
                }
                object.end()
            }
        }
    };
}

pub(crate) use resource;
