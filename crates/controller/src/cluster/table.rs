//! Objects by namespace and name, which a complete list can replace bit by bit.

use std::collections::HashMap;

/// Objects by namespace and name. While a list goes on, what was known stays
/// until the end of the list shows that it is gone.
#[derive(Clone, Debug)]
pub struct Table<V> {
    rows: HashMap<String, HashMap<String, Row<V>>>,
    /// Which list this is; rows of older ones are gone when it ends.
    round: u64,
    complete: bool,
}

#[derive(Clone, Debug)]
struct Row<V> {
    value: V,
    round: u64,
}

impl<V> Default for Table<V> {
    fn default() -> Self {
        Self {
            rows: HashMap::new(),
            round: 0,
            complete: false,
        }
    }
}

impl<V> Table<V> {
    /// Whether a list has come to its end.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// An object.
    pub fn get(&self, namespace: &str, name: &str) -> Option<&V> {
        Some(&self.rows.get(namespace)?.get(name)?.value)
    }

    /// All objects.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, _, value)| value)
    }

    /// All objects, with namespace and name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, &V)> {
        self.rows.iter().flat_map(|(namespace, rows)| {
            let rows = rows.iter();
            rows.map(|(name, row)| (namespace.as_str(), name.as_str(), &row.value))
        })
    }

    /// The objects of a namespace, with their names.
    pub fn within(&self, namespace: &str) -> impl Iterator<Item = (&str, &V)> {
        let rows = self.rows.get(namespace).into_iter().flatten();
        rows.map(|(name, row)| (name.as_str(), &row.value))
    }

    /// The namespaces that have any.
    pub fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.rows.keys().map(String::as_str)
    }

    /// Enters an object, and returns what it replaces.
    pub fn put(&mut self, namespace: &str, name: &str, value: V) -> Option<V> {
        let round = self.round;
        let rows = self.rows.entry(namespace.to_owned()).or_default();
        let row = Row { value, round };
        rows.insert(name.to_owned(), row).map(|old| old.value)
    }

    /// Notes that an object is in the list, without saying how it is.
    pub fn keep(&mut self, namespace: &str, name: &str) {
        if let Some(row) = self.rows.get_mut(namespace).and_then(|it| it.get_mut(name)) {
            row.round = self.round;
        }
    }

    /// Removes an object.
    pub fn remove(&mut self, namespace: &str, name: &str) -> Option<V> {
        let rows = self.rows.get_mut(namespace)?;
        let row = rows.remove(name)?;
        if rows.is_empty() {
            self.rows.remove(namespace);
        }
        Some(row.value)
    }

    /// A list begins; one that was not complete is forgotten.
    pub fn begin(&mut self) {
        self.round += 1;
    }

    /// The list is complete. Removes and returns what was not in it.
    pub fn end(&mut self) -> Vec<(String, String, V)> {
        self.complete = true;
        let round = self.round;
        let mut gone = Vec::new();
        for (namespace, rows) in &mut self.rows {
            let old = rows.extract_if(|_, row| row.round != round);
            gone.extend(old.map(|(name, row)| (namespace.clone(), name, row.value)));
        }
        self.rows.retain(|_, rows| !rows.is_empty());
        // For a reader, the same in every run.
        gone.sort_by(|one, other| (&one.0, &one.1).cmp(&(&other.0, &other.1)));
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(table: &Table<u32>) -> Vec<String> {
        let mut names: Vec<String> = table
            .iter()
            .map(|(namespace, name, value)| format!("{namespace}/{name}={value}"))
            .collect();
        names.sort();
        names
    }

    #[test]
    fn what_is_not_in_a_list_is_gone_at_its_end() {
        let mut table = Table::default();
        table.begin();
        table.put("a", "x", 1);
        table.put("a", "y", 2);
        table.put("b", "x", 3);
        assert!(!table.is_complete());
        assert_eq!(table.end(), []);
        assert!(table.is_complete());

        table.begin();
        table.put("a", "x", 4);
        table.keep("b", "x");
        table.keep("b", "unknown");
        assert_eq!(names(&table), ["a/x=4", "a/y=2", "b/x=3"]);
        assert_eq!(table.end(), [("a".into(), "y".into(), 2)]);
        assert_eq!(names(&table), ["a/x=4", "b/x=3"]);
    }

    #[test]
    fn a_list_that_breaks_off_proves_nothing() {
        let mut table = Table::default();
        table.begin();
        table.put("a", "x", 1);
        table.put("a", "y", 2);
        table.end();
        table.begin();
        table.put("a", "x", 1);
        table.begin();
        table.put("a", "y", 2);
        assert_eq!(table.end(), [("a".into(), "x".into(), 1)]);
    }

    #[test]
    fn single_changes() {
        let mut table = Table::default();
        assert_eq!(table.put("a", "x", 1), None);
        assert_eq!(table.put("a", "x", 2), Some(1));
        assert_eq!(table.get("a", "x"), Some(&2));
        assert_eq!(table.get("a", "y"), None);
        assert_eq!(table.remove("b", "x"), None);
        assert_eq!(table.remove("a", "x"), Some(2));
        assert_eq!(table.remove("a", "x"), None);
        assert_eq!(names(&table), [""; 0]);
    }
}
