//! What an error says, with all that caused it, and without what nobody shall read.

use std::error::Error;

use kube::{client::AuthError, config::KubeconfigError};

/// An error with all that caused it.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    if let Some(text) = discreet(error) {
        return text;
    }
    let mut text = error.to_string();
    for error in causes(error).skip(1) {
        let next = error.to_string();
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
    }
    text
}

/// The first cause, which says most about a connection that fails.
pub fn root(error: &(dyn Error + 'static)) -> String {
    if let Some(text) = discreet(error) {
        return text;
    }
    let last = causes(error).last();
    last.map_or_else(String::new, ToString::to_string)
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error: &&'a (dyn Error + 'static)| {
        (*error).source()
    })
}

/// Another text for errors that quote a kubeconfig or the answer of a credential plugin:
/// tokens and keys are in both.
fn discreet(error: &(dyn Error + 'static)) -> Option<String> {
    causes(error).find_map(|error| {
        if let Some(KubeconfigError::Parse(error)) = error.downcast_ref() {
            let place = error.location();
            let place = place.map_or_else(String::new, |it| {
                format!(" at line {} column {}", it.line(), it.column())
            });
            return Some(format!("it cannot be read{place}"));
        }
        let error: &AuthError = error.downcast_ref()?;
        if let AuthError::AuthExecRun { out, .. } = error {
            return Some(format!("the credential plugin ends with {}", out.status));
        }
        let is_answer = matches!(
            error,
            AuthError::AuthExecParse(_) | AuthError::ParseTokenKey(_)
        );
        is_answer.then(|| "the credential plugin answers with no credential".into())
    })
}
