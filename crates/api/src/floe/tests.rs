/// The members that the schema does not name, which the API server would drop.
pub(crate) fn unknown(
    schema: &serde_json::Value,
    value: &serde_json::Value,
    path: &str,
) -> Vec<String> {
    let mut found = Vec::new();
    for (name, member) in value.as_object().into_iter().flatten() {
        let path = format!("{path}/{name}");
        let any = schema.get("additionalProperties");
        match schema["properties"].get(name).or(any) {
            Some(schema) => found.extend(unknown(schema, member, &path)),
            None => found.push(path),
        }
    }
    for (place, item) in value.as_array().into_iter().flatten().enumerate() {
        found.extend(unknown(&schema["items"], item, &format!("{path}/{place}")));
    }
    found
}
