use super::*;

/// What galaxy's documents print.
const PRINTED: &str = include_str!("declaration.json");

#[test]
fn the_declaration_is_the_printed_one_with_the_reasons_that_it_lacks() {
    let printed: Value = serde_json::from_str(PRINTED).unwrap();
    let own = declaration("http://192.168.99.100:32761");
    let mut differences = Vec::new();
    compare("", &printed, &own, &mut differences);
    // The document is older than this member of galaxy's answers.
    let added = "/models/api.ReleaseIPResp/properties/reasons is too much";
    assert_eq!(differences, [added]);
}

#[test]
fn the_list_names_the_declaration() {
    let listing = listing();
    assert_eq!(listing["swaggerVersion"], "1.2");
    assert_eq!(listing["apis"][0]["path"], "/v1");
}

fn compare(path: &str, printed: &Value, own: &Value, differences: &mut Vec<String>) {
    match (printed, own) {
        (Value::Object(printed), Value::Object(own)) => {
            for (name, value) in printed {
                let other = own.get(name).unwrap_or(&Value::Null);
                compare(&format!("{path}/{name}"), value, other, differences);
            }
            for name in own.keys().filter(|name| !printed.contains_key(*name)) {
                differences.push(format!("{path}/{name} is too much"));
            }
        }
        (Value::Array(printed), Value::Array(own)) if printed.len() == own.len() => {
            for (place, (value, other)) in printed.iter().zip(own).enumerate() {
                compare(&format!("{path}/{place}"), value, other, differences);
            }
        }
        _ if printed == own => {}
        _ => differences.push(format!("{path} is {own}, not {printed}")),
    }
}
