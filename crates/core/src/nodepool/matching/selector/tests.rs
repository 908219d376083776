use super::*;

fn labels(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split_whitespace().filter_map(|it| it.split_once('='));
    pairs.map(|(k, v)| (k.into(), v.into())).collect()
}

#[test]
fn selectors_select_what_kubernetes_would() {
    for (selector, given, selected) in [
        ("", "", true),
        ("  \t", "a=b", true),
        ("a=b", "a=b", true),
        ("a==b", "a=b", true),
        ("a = b , c", "a=b c=", true),
        ("a=b", "a=c", false),
        ("a=b", "", false),
        ("a=", "a=", true),
        ("a=,b", "a= b=1", true),
        ("a=", "", false),
        ("a!=b", "a=b", false),
        ("a!=b", "a=c", true),
        ("a!=b", "", true),
        ("a!=", "a=", false),
        ("a in (b,c)", "a=c", true),
        ("a in(b,c)", "a=c", true),
        ("a in (b,c)", "a=d", false),
        ("a in (b,c)", "", false),
        ("a in (b,)", "a=", true),
        ("a in (,)", "a=", true),
        ("a in (b,,c)", "a=", true),
        ("a notin (b,c)", "a=c", false),
        ("a notin (b,c)", "a=d", true),
        ("a notin (b,c)", "", true),
        ("a", "a=", true),
        ("a", "b=", false),
        ("!a", "", true),
        ("! a", "a=", false),
        ("a,!b,c in (d)", "a=1 c=d", true),
        ("a,!b,c in (d)", "a=1 b=1 c=d", false),
        ("in in (notin)", "in=notin", true),
        ("notin", "notin=x", true),
        ("a=in", "a=in", true),
        ("a>5", "a=6", true),
        ("a>5", "a=5", false),
        ("a<5", "a=4", true),
        ("a<5", "a=x", false),
        ("a<5", "", false),
        ("kubernetes.io/os=linux", "kubernetes.io/os=linux", true),
        ("X_y.z-1=A_b.c-2", "X_y.z-1=A_b.c-2", true),
    ] {
        let parsed = Selector::parse(selector).expect(selector);
        assert_eq!(
            parsed.matches(&labels(given)),
            selected,
            "{selector:?} {given:?}"
        );
        assert_eq!(parsed.is_empty(), selector.trim().is_empty());
    }
}

#[test]
fn what_kubernetes_refuses_is_refused_with_the_place() {
    let long = "x".repeat(64);
    for (selector, words) in [
        (",", "found \",\", expected a label key or \"!\""),
        ("a,", "found the end, expected a label key or \"!\""),
        ("a,,b", "found \",\", expected a label key"),
        ("=b", "found \"=\", expected a label key"),
        ("!", "found the end, expected a label key"),
        ("!!a", "found \"!\", expected a label key"),
        ("!a=b", "found \"=\", expected a comma or the end"),
        ("a b", "found \"b\", expected one of ="),
        ("a=b c", "found \"c\", expected a comma or the end"),
        ("a==!b", "found \"!\", expected a label value"),
        ("a=(b)", "found \"(\", expected a label value"),
        ("a in b", "found \"b\", expected \"(\""),
        ("a in ()", "the list of values of key \"a\" is empty"),
        ("a in (b", "found the end, expected a comma or \")\""),
        ("a in (", "found the end, expected a label value"),
        ("a in (b c)", "found \"c\", expected a comma or \")\""),
        ("a in (b=c)", "found \"=\", expected a comma or \")\""),
        ("a in (=)", "found \"=\", expected a label value"),
        ("a in (b))", "found \")\", expected a comma or the end"),
        ("a)", "found \")\", expected one of ="),
        ("a>b", "\"b\" is not a whole number"),
        ("a>", "\"\" is not a whole number"),
        ("-a", "\"-a\" is not a label key: it has to begin and end"),
        ("a_", "it has to begin and end"),
        ("a/b/c", "only letters"),
        ("/a", "there is nothing before the slash"),
        ("a/", "the name is empty"),
        ("A.b/c", "not a lower case domain name"),
        ("a..b/c", "not a lower case domain name"),
        (
            "a=b/c",
            "\"b/c\" is not a label value (of key \"a\"): only letters",
        ),
        ("a in (b,-c)", "\"-c\" is not a label value"),
        ("ä=b", "only letters"),
        (&long, "it has more than 63 characters"),
        (&format!("a={long}"), "it has more than 63 characters"),
        (&format!("{}/a", "a".repeat(254)), "more than 253"),
    ] {
        let error = Selector::parse(selector).expect_err(selector).to_string();
        assert!(error.contains(words), "{selector:?}: {error}");
    }
}
