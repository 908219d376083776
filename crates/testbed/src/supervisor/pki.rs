//! Certificates of one cluster: one authority, one certificate per program.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use serde_json::json;

use super::addresses::{API_SERVER, KUBERNETES_SERVICE};

/// The authority of a cluster and the directory that holds what it signed.
pub struct Pki {
    issuer: Issuer<'static, KeyPair>,
    authority_pem: String,
    directory: PathBuf,
}

impl Pki {
    /// Makes a new authority, and the key pair for service account tokens.
    pub fn create(directory: &Path) -> Result<Self> {
        fs::create_dir_all(directory)?;
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name = name("floe-testbed", None);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let key = KeyPair::generate()?;
        let authority_pem = params.self_signed(&key)?.pem();
        let pki = Self {
            issuer: Issuer::new(params, key),
            authority_pem,
            directory: directory.to_owned(),
        };
        fs::write(pki.authority(), &pki.authority_pem)?;
        let tokens = KeyPair::generate()?;
        pki.write_secret("tokens.key", &tokens.serialize_pem())?;
        fs::write(pki.directory.join("tokens.pub"), tokens.public_key_pem())?;
        Ok(pki)
    }

    /// The file with the authority's certificate.
    pub fn authority(&self) -> PathBuf {
        self.directory.join("ca.crt")
    }

    /// A file below the directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Writes `apiserver.crt` and `.key`, valid for every way to reach it.
    pub fn serve_api(&self) -> Result<()> {
        let names = [
            "localhost".to_owned(),
            "127.0.0.1".to_owned(),
            "kubernetes".to_owned(),
            "kubernetes.default".to_owned(),
            "kubernetes.default.svc".to_owned(),
            KUBERNETES_SERVICE.to_string(),
            API_SERVER.ip().to_string(),
        ];
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name = name("kube-apiserver", None);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign("apiserver", &params).map(drop)
    }

    /// Writes `<file>.crt` and `.key` for a client, and returns both as text.
    pub fn client(&self, file: &str, user: &str, group: Option<&str>) -> Result<(String, String)> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name = name(user, group);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(file, &params)
    }

    /// Writes a kubeconfig for a client that reaches the API server at `server`.
    pub fn kubeconfig(
        &self,
        path: &Path,
        server: &str,
        user: &str,
        group: Option<&str>,
    ) -> Result<()> {
        let file = path
            .file_stem()
            .map(|stem| stem.to_string_lossy().into_owned())
            .unwrap_or_default();
        self.client(&file, user, group)?;
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "floe",
            "clusters": [{ "name": "floe", "cluster": {
                "server": server, "certificate-authority": self.authority() } }],
            "users": [{ "name": user, "user": {
                "client-certificate": self.file(&format!("{file}.crt")),
                "client-key": self.file(&format!("{file}.key")) } }],
            "contexts": [{ "name": "floe", "context": { "cluster": "floe", "user": user } }],
        });
        // JSON is YAML, and every client reads it.
        write_private(path, &serde_json::to_string_pretty(&config)?)
    }

    fn sign(&self, file: &str, params: &CertificateParams) -> Result<(String, String)> {
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        fs::write(self.file(&format!("{file}.crt")), &certificate)?;
        let key = key.serialize_pem();
        self.write_secret(&format!("{file}.key"), &key)?;
        Ok((certificate, key))
    }

    fn write_secret(&self, file: &str, text: &str) -> Result<()> {
        write_private(&self.file(file), text)
    }
}

fn write_private(path: &Path, text: &str) -> Result<()> {
    let mut options = fs::OpenOptions::new();
    let mut file = options
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    Ok(file.write_all(text.as_bytes())?)
}

fn name(user: &str, group: Option<&str>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    if let Some(group) = group {
        name.push(DnType::OrganizationName, group);
    }
    name.push(DnType::CommonName, user);
    name
}
