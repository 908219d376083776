//! Columns of `kubectl get`.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceColumnDefinition;

/// One column, with its title, type and path.
pub(crate) struct Column(CustomResourceColumnDefinition);

pub(crate) fn text(title: &str, path: &str) -> Column {
    typed("string", title, path)
}

pub(crate) fn integer(title: &str, path: &str) -> Column {
    typed("integer", title, path)
}

pub(crate) fn boolean(title: &str, path: &str) -> Column {
    typed("boolean", title, path)
}

/// Shown as the time that went by since.
pub(crate) fn date(title: &str, path: &str) -> Column {
    typed("date", title, path)
}

pub(crate) fn annotation(title: &str, name: &str) -> Column {
    text(title, &format!(".metadata.annotations.{}", escaped(name)))
}

pub(crate) fn label(title: &str, name: &str) -> Column {
    text(title, &format!(".metadata.labels.{}", escaped(name)))
}

/// The last column of every kind.
pub(crate) fn age() -> Column {
    date("Age", ".metadata.creationTimestamp")
}

impl Column {
    pub fn tells(mut self, description: &str) -> Self {
        self.0.description = Some(description.into());
        self
    }

    /// Leaves the column to `-o wide`.
    pub fn only_wide(mut self) -> Self {
        self.0.priority = Some(1);
        self
    }
}

impl From<Column> for CustomResourceColumnDefinition {
    fn from(column: Column) -> Self {
        column.0
    }
}

fn typed(kind: &str, title: &str, path: &str) -> Column {
    Column(CustomResourceColumnDefinition {
        name: title.into(),
        type_: kind.into(),
        json_path: path.into(),
        ..CustomResourceColumnDefinition::default()
    })
}

/// A dot in a member name would end it.
fn escaped(name: &str) -> String {
    name.replace('.', r"\.")
}
