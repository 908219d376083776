{{/* The image of a part: (dict "chart" .Chart "image" .Values.controller.image) */}}
{{- define "floe.image" -}}
{{- if .image.digest -}}
{{ .image.repository }}@{{ .image.digest }}
{{- else -}}
{{ .image.repository }}:{{ .image.tag | default .chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* Labels of all objects of a part: (include "floe.labels" "controller") */}}
{{- define "floe.labels" -}}
app.kubernetes.io/name: floe-{{ . }}
app.kubernetes.io/part-of: floe
{{- end -}}

{{/*
The flags of the controller, one in a line; none where all is as the program has it. Further
settings of the controller become flags here.
*/}}
{{- define "floe.controller.args" -}}
{{- if not .Values.webhook.enabled }}
- --webhook=false
{{- end }}
{{- with .Values.controller }}
{{- if not .floatIPs }}
- --float-ips=false
{{- end }}
{{- if not .nodePools }}
- --node-pools=false
{{- end }}
{{- if ne .scheduling "extender" }}
- --scheduling={{ .scheduling }}
{{- end }}
{{- if ne .api.auth "kubernetes" }}
- --api-auth={{ .api.auth }}
{{- end }}
{{- if .api.swagger }}
- --swagger=true
{{- end }}
{{- if .extender.tlsSecret }}
- --extender-tls-cert-file=/etc/floe/extender/tls.crt
- --extender-tls-key-file=/etc/floe/extender/tls.key
{{- if .extender.clientCA }}
- --extender-client-ca-file=/etc/floe/extender/ca.crt
{{- end }}
{{- end }}
{{- with .extender.allowFrom }}
- --extender-allow-from={{ join "," . }}
{{- end }}
{{- if .extender.tokenSecret }}
- --extender-token-file=/etc/floe/extender-token/token
{{- end }}
{{- if .logLevel }}
- --log-level={{ .logLevel }}
{{- end }}
{{- if .logFormat }}
- --log-format={{ .logFormat }}
{{- end }}
{{- range .extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The flags of the agent, as those of the controller. */}}
{{- define "floe.agent.args" -}}
{{- with .Values.agent }}
{{- if not .vip }}
- --vip=false
{{- end }}
{{- if ne (int .vipPort) 9042 }}
- --vip-port={{ .vipPort }}
{{- end }}
{{- if .trustAnnotations }}
- --trust-annotations=true
{{- end }}
{{- if .logLevel }}
- --log-level={{ .logLevel }}
{{- end }}
{{- if .logFormat }}
- --log-format={{ .logFormat }}
{{- end }}
{{- range .extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* What the schema cannot say. */}}
{{- define "floe.checks" -}}
{{- if ne .Release.Namespace "kube-system" }}
{{- fail (printf "floe lives in the namespace kube-system, where galaxy's objects are, not in %s: add --namespace kube-system" .Release.Namespace) }}
{{- end }}
{{- if and .Values.controller.extender.clientCA (not .Values.controller.extender.tlsSecret) }}
{{- fail "controller.extender.clientCA needs controller.extender.tlsSecret" }}
{{- end }}
{{- end -}}
