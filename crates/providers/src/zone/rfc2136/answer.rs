//! What a name server's answer means.

use floe_core::nodepool::cloud::{Class, Refusal};
use hickory_proto::{
    op::{Message, OpCode, ResponseCode},
    rr::{Record, rdata::tsig::TsigError},
};

/// The refusal of an answer, if it is one. That there is no such name is none.
pub(super) fn refusal(answer: &Message) -> Option<Refusal> {
    let code = answer.metadata.response_code;
    let signature = answer.signature().and_then(|record| record.data.error);
    let class = match code {
        ResponseCode::NoError | ResponseCode::NXDomain => return None,
        // Of the key, or else of the zone: RFC 8945 and RFC 2136 share the code.
        ResponseCode::NotAuth if signature.is_some() => Class::Unauthorized,
        ResponseCode::NotAuth => Class::ZoneUnknown,
        // So it is with questions after zones that a server does not have.
        ResponseCode::Refused if answer.metadata.op_code == OpCode::Query => Class::ZoneUnknown,
        ResponseCode::Refused
        | ResponseCode::BADSIG
        | ResponseCode::BADKEY
        | ResponseCode::BADTIME
        | ResponseCode::BADTRUNC
        | ResponseCode::BADALG => Class::Unauthorized,
        // The conditions no longer hold: somebody else was faster.
        ResponseCode::YXDomain | ResponseCode::YXRRSet | ResponseCode::NXRRSet => Class::Busy,
        ResponseCode::ServFail => Class::Unavailable,
        ResponseCode::FormErr
        | ResponseCode::NotImp
        | ResponseCode::NotZone
        | ResponseCode::BADVERS
        | ResponseCode::BADMODE
        | ResponseCode::BADNAME
        | ResponseCode::BADCOOKIE
        | ResponseCode::Unknown(_) => Class::Invalid,
    };
    Some(Refusal::new(class, words(code, signature)))
}

fn words(code: ResponseCode, signature: Option<TsigError>) -> String {
    let of_key = signature.map(|error| match error {
        TsigError::BadSig => "the secret is wrong (BADSIG)",
        TsigError::BadKey => "it has no such key (BADKEY)",
        TsigError::BadTime => "the clocks are too far apart (BADTIME)",
        TsigError::BadTrunc | TsigError::Unknown(_) => "it does not take the signature",
    });
    let of_code = match code {
        ResponseCode::Refused => "it does not have this zone, or the key may not do this",
        ResponseCode::NotAuth => "it does not have this zone",
        ResponseCode::NotZone => "the name is not in the zone",
        ResponseCode::YXDomain | ResponseCode::YXRRSet | ResponseCode::NXRRSet => {
            "the records have changed meanwhile"
        }
        ResponseCode::ServFail => "it failed",
        ResponseCode::NotImp => "it takes no updates",
        ResponseCode::NoError
        | ResponseCode::NXDomain
        | ResponseCode::FormErr
        | ResponseCode::BADVERS
        | ResponseCode::BADSIG
        | ResponseCode::BADKEY
        | ResponseCode::BADTIME
        | ResponseCode::BADMODE
        | ResponseCode::BADNAME
        | ResponseCode::BADALG
        | ResponseCode::BADTRUNC
        | ResponseCode::BADCOOKIE
        | ResponseCode::Unknown(_) => "it cannot do this",
    };
    let words = of_key.unwrap_or(of_code);
    format!("the name server says: {words} ({code:?})")
}

/// The records of a good answer to a question. Who only passes on what others say cannot be
/// told what they shall say.
pub(super) fn records(answer: Message) -> Result<Vec<Record>, Refusal> {
    if !answer.metadata.authoritative {
        let words = "the name server does not have this zone itself";
        return Err(Refusal::new(Class::ZoneUnknown, words));
    }
    Ok(answer.answers)
}

/// That a good answer to an update really says so.
pub(super) fn done(answer: &Message) -> Result<(), Refusal> {
    if answer.metadata.response_code == ResponseCode::NXDomain {
        let words = "the name server says: the records have changed meanwhile (NXDomain)";
        return Err(Refusal::new(Class::Busy, words));
    }
    Ok(())
}
