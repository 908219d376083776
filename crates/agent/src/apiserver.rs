//! How to name what the API server refuses.

/// Whether an error says that there is no such object.
pub fn is_missing(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}
