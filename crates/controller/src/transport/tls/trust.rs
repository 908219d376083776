//! Whom a replica trusts: itself, which is every replica, since all have the
//! same certificate; and, as a server, clients that the administrator names.

use std::sync::Arc;

use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::danger::{ClientCertVerified, ClientCertVerifier},
};

/// Trusts a server with exactly our own certificate, whatever its name and its
/// dates: nobody else has the key.
#[derive(Debug)]
pub struct OursOnly {
    ours: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl OursOnly {
    /// Trusts this certificate.
    pub fn new(ours: CertificateDer<'static>, provider: Arc<CryptoProvider>) -> Self {
        Self { ours, provider }
    }
}

impl ServerCertVerifier for OursOnly {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if *end_entity == self.ours {
            return Ok(ServerCertVerified::assertion());
        }
        let foreign = CertificateError::ApplicationVerificationFailure;
        Err(Error::InvalidCertificate(foreign))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}

/// Trusts clients with our own certificate, and those with one that is signed by
/// the administrator's choice.
#[derive(Debug)]
pub struct OursOrSigned {
    /// Our own certificate.
    pub ours: CertificateDer<'static>,
    /// Judges all others.
    pub signed: Arc<dyn ClientCertVerifier>,
}

impl ClientCertVerifier for OursOrSigned {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.signed.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if *end_entity == self.ours {
            return Ok(ClientCertVerified::assertion());
        }
        self.signed
            .verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signed.supported_verify_schemes()
    }
}
