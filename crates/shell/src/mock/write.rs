//! Writes, with the preconditions of the real server.

use axum::{
    body::Body,
    http::{Method, Response, StatusCode},
};
use serde_json::{Value, json};

use super::{Place, State, refusal, success};
use crate::unkept::merge;

impl State {
    pub(super) fn write(&mut self, method: &Method, place: &Place, body: &[u8]) -> Response<Body> {
        let body: Value = if body.is_empty() {
            json!({})
        } else {
            serde_json::from_slice(body).unwrap()
        };
        if method == Method::POST && place.subresource.as_deref() == Some("binding") {
            return self.bind(place, &body);
        }
        if method == Method::POST && place.subresource.as_deref() == Some("eviction") {
            return self.evict(place, &body);
        }
        if method == Method::POST && place.collection.ends_with("/selfsubjectaccessreviews") {
            return self.review(body);
        }
        if method == Method::POST {
            return self.create(place, body);
        }
        let name = place.name.as_deref().unwrap_or_default();
        let Some(old) = self.get(place, name).cloned() else {
            return refusal(404, "NotFound");
        };
        if method == Method::DELETE {
            self.erase(place, &old, &body["preconditions"])
        } else if method == Method::PATCH {
            self.patch(place, &old, &body)
        } else {
            assert_eq!(method, Method::PUT);
            if !holds(&old, &body["metadata"]) {
                return refusal(409, "Conflict");
            }
            success(&self.store(place, body))
        }
    }

    /// A review is answered and not stored.
    fn review(&self, mut review: Value) -> Response<Body> {
        let asked = &review["spec"]["resourceAttributes"];
        let word = |name: &str| asked[name].as_str().unwrap_or_default().to_owned();
        let asked = format!("{} {}", word("verb"), word("resource"));
        review["status"] = json!({ "allowed": !self.denied.contains(&asked) });
        success(&review)
    }

    fn create(&mut self, place: &Place, mut object: Value) -> Response<Body> {
        let meta = &mut object["metadata"];
        if let (true, Some(start)) = (meta["name"].is_null(), meta["generateName"].as_str()) {
            meta["name"] = json!(format!("{start}{}", self.version));
        }
        let name = meta["name"].as_str().unwrap().to_owned();
        // The real server makes both, whatever the client says.
        meta["uid"] = Value::Null;
        meta["creationTimestamp"] = json!("2024-01-01T00:00:00Z");
        if self.get(place, &name).is_some() {
            return refusal(409, "AlreadyExists");
        }
        success(&self.store(place, object))
    }

    fn erase(&mut self, place: &Place, old: &Value, preconditions: &Value) -> Response<Body> {
        if !holds(old, preconditions) {
            return refusal(409, "Conflict");
        }
        let meta = &old["metadata"];
        if meta["finalizers"]
            .as_array()
            .is_some_and(|it| !it.is_empty())
        {
            let mut waits = old.clone();
            waits["metadata"]["deletionTimestamp"] = json!("2024-01-01T00:00:00Z");
            return success(&self.store(place, waits));
        }
        let key = self.key_of(place, meta["name"].as_str().unwrap());
        self.remove(place, &key.unwrap());
        success(&json!({
            "kind": "Status", "apiVersion": "v1", "status": "Success",
            "details": { "name": meta["name"], "uid": meta["uid"] },
        }))
    }

    fn patch(&mut self, place: &Place, old: &Value, patch: &Value) -> Response<Body> {
        if !holds(old, &patch["metadata"]) {
            return refusal(409, "Conflict");
        }
        let mut object = old.clone();
        merge(&mut object, patch);
        self.prune(place, &mut object);
        // The real server writes nothing when nothing changes.
        if object == *old {
            return success(old);
        }
        // What waits only for its finalizers goes with the last of them.
        let meta = &object["metadata"];
        let finalizers = meta["finalizers"].as_array();
        let is_over = !meta["deletionTimestamp"].is_null() && finalizers.is_none_or(Vec::is_empty);
        if is_over && !old["metadata"]["finalizers"].is_null() {
            let key = self.key_of(place, meta["name"].as_str().unwrap());
            self.remove(place, &key.unwrap());
            return success(&object);
        }
        success(&self.store(place, object))
    }

    fn bind(&mut self, place: &Place, binding: &Value) -> Response<Body> {
        let name = place.name.as_deref().unwrap_or_default();
        let Some(mut pod) = self.get(place, name).cloned() else {
            return refusal(404, "NotFound");
        };
        let bound = pod["spec"]["nodeName"]
            .as_str()
            .is_some_and(|it| !it.is_empty());
        if bound
            || !pod["metadata"]["deletionTimestamp"].is_null()
            || !holds(&pod, &binding["metadata"])
        {
            return refusal(409, "Conflict");
        }
        pod["spec"]["nodeName"] = binding["target"]["name"].clone();
        let annotations = &binding["metadata"]["annotations"];
        if !annotations.is_null() {
            merge(&mut pod["metadata"]["annotations"], annotations);
        }
        let place = Place {
            subresource: None,
            ..place.clone()
        };
        self.store(&place, pod);
        success(&json!({ "kind": "Status", "apiVersion": "v1", "status": "Success" }))
    }
}

impl State {
    /// The pod goes at once, unless it has finalizers, or a budget protects it.
    fn evict(&mut self, place: &Place, eviction: &Value) -> Response<Body> {
        let name = place.name.as_deref().unwrap_or_default();
        let Some(pod) = self.get(place, name).cloned() else {
            return refusal(404, "NotFound");
        };
        if self.protected {
            return budget();
        }
        let place = Place {
            subresource: None,
            ..place.clone()
        };
        self.erase(&place, &pod, &eviction["deleteOptions"]["preconditions"])
    }
}

/// What the real server says of a pod that a budget protects.
fn budget() -> Response<Body> {
    let mut response = success(&json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 429,
        "reason": "TooManyRequests",
        "message": "Cannot evict pod as it would violate the pod's disruption budget.",
        "details": { "causes": [{
            "reason": "DisruptionBudget",
            "message": "The disruption budget web needs 2 healthy pods and has 2 currently",
        }] },
    }));
    *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    response
}

/// Whether an object has the uid and the version that are asked for, if any.
fn holds(object: &Value, wanted: &Value) -> bool {
    ["uid", "resourceVersion"]
        .iter()
        .all(|it| wanted[it].is_null() || wanted[it] == object["metadata"][it])
}
