use super::*;

const MANIFEST: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: { name: x, namespace: one }
rules:
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    resourceNames: [mine]
    verbs: [get, update]
---
kind: RoleBinding
metadata: { name: x, namespace: one }
roleRef: { kind: Role, name: x }
subjects: [{ kind: ServiceAccount, name: a, namespace: n }, { kind: Group, name: all }]
---
kind: ClusterRole
metadata: { name: x }
rules: [{ apiGroups: [''], resources: [pods/binding], verbs: [create] }]
---
kind: ClusterRoleBinding
metadata: { name: x }
roleRef: { kind: ClusterRole, name: x }
subjects: [{ kind: ServiceAccount, name: a, namespace: n }]
";

fn event(verb: &str, object: &str, decision: &str) -> String {
    let user = r#"{"username":"system:serviceaccount:n:a"}"#;
    let notes = format!(r#"{{"authorization.k8s.io/decision":"{decision}"}}"#);
    format!(r#"{{"user":{user},"verb":"{verb}","objectRef":{object},"annotations":{notes}}}"#)
}

fn lease(name: &str) -> String {
    format!(
        r#"{{"apiGroup":"coordination.k8s.io","resource":"leases","namespace":"one","name":"{name}"}}"#
    )
}

#[test]
fn what_is_refused_and_what_is_never_used_is_found() {
    let grants = granted(MANIFEST).unwrap();
    let mut requests = Requests::default();
    let binding = r#"{"resource":"pods","subresource":"binding","namespace":"b","name":"p"}"#;
    let lines = [
        event("get", &lease("mine"), "allow"),
        // By another right: that one is limited to a name.
        event("update", &lease("other"), "allow"),
        event("create", binding, "allow"),
        event("delete", &lease("mine"), "forbid"),
        event("get", &lease("mine"), "forbid"),
        event(
            "list",
            r#"{"apiGroup":"example.dev","resource":"games"}"#,
            "forbid",
        ),
        event("get", "{}", "forbid"),
        "{ cut off".to_owned(),
    ];
    requests.take_in(&lines.join("\n"));
    let verdict = requests.judge(&grants);
    assert_eq!(
        verdict.refused,
        ["system:serviceaccount:n:a: delete leases.coordination.k8s.io one/mine"]
    );
    assert_eq!(
        verdict.unused,
        ["system:serviceaccount:n:a: update leases.coordination.k8s.io named mine in one"]
    );
}

#[test]
fn every_manifest_that_ships_grants_something() {
    let grants = grants().unwrap();
    for account in [
        "kube-system:floe-controller",
        "kube-system:floe-agent",
        "flipop:flipop",
    ] {
        let account = format!("system:serviceaccount:{account}");
        assert!(grants.iter().any(|it| it.account == account), "{account}");
    }
    // Nothing is granted by a star: nobody could tell whether it is used.
    let has_star = |it: &&Grant| [&it.verb, &it.resource, &it.group].contains(&&"*".to_owned());
    assert_eq!(grants.iter().find(has_star), None);
}
