{{/*
Whether the API server asks floe. Not where nobody would answer, and not any more when the
installation is about to go: the configurations have to be gone before the controllers.
*/}}
{{- define "floe.webhook" -}}
{{- $leaving := and .Values.agent.enabled .Values.agent.remove }}
{{- if and .Values.webhook.enabled .Values.controller.enabled .Values.controller.floatIPs (not $leaving) -}}
true
{{- end -}}
{{- end -}}

{{/*
How the API server reaches it: (dict "namespace" .Release.Namespace "path" "/validate"). Without
caBundle, which the controller writes: what is not in here, Helm and kubectl leave as it is.
*/}}
{{- define "floe.webhook.client" -}}
clientConfig:
  service:
    name: floe-webhook
    namespace: {{ .namespace }}
    path: {{ .path }}
{{- end -}}

{{/* Whether a pod or a template, which is at this path, requests an address. */}}
{{- define "floe.webhook.wants" -}}
{{ . }}.spec.containers.exists(c, has(c.resources) &&
((has(c.resources.requests) && 'tke.cloud.tencent.com/eni-ip' in c.resources.requests) ||
(has(c.resources.limits) && 'tke.cloud.tencent.com/eni-ip' in c.resources.limits)))
{{- end -}}

{{/* Whether it says something about addresses. */}}
{{- define "floe.webhook.says" -}}
has({{ . }}.metadata.annotations) && [
'k8s.v1.cni.galaxy.io/args', 'k8s.v1.cni.galaxy.io/release-policy',
'tke.cloud.tencent.com/eni-ip-pool', 'floe.dev/families',
'cni.projectcalico.org/floatingIPs', 'floe.dev/floating-ips'
].exists(a, a in {{ . }}.metadata.annotations)
{{- end -}}

{{/* Who is looked at: neither pods of files on nodes, which are there already when they are told… */}}
{{- define "floe.webhook.nodes" -}}
- name: not-of-a-node
  expression: "!('system:nodes' in request.userInfo.groups)"
{{- end -}}

{{/* … nor what floe, or a galaxy-ipam that goes or comes back, writes: of the namespace. */}}
{{- define "floe.webhook.own" -}}
- name: not-of-floe
  expression: >-
    !(request.userInfo.username in [
    'system:serviceaccount:{{ . }}:floe-controller',
    'system:serviceaccount:{{ . }}:floe-agent',
    'system:serviceaccount:{{ . }}:galaxy-ipam'])
{{- end -}}

{{/*
Templates of pods: (dict "name" … "group" … "resources" … "template" … "namespace" …). What
nobody has looked at, its pods are refused for.
*/}}
{{- define "floe.webhook.workloads" -}}
- name: {{ .name }}.floe.dev
  admissionReviewVersions: [v1]
  sideEffects: None
  timeoutSeconds: 2
  failurePolicy: Ignore
  {{- include "floe.webhook.client" (dict "namespace" .namespace "path" "/validate") | nindent 2 }}
  rules:
    - apiGroups: [{{ .group }}]
      apiVersions: [v1]
      operations: [CREATE, UPDATE]
      resources: [{{ .resources }}]
      scope: Namespaced
  matchConditions:
    - name: is-about-addresses
      expression: >-
        {{- include "floe.webhook.wants" .template | nindent 8 }} ||
        (has({{ .template }}.metadata) && {{ include "floe.webhook.says" .template | nindent 8 | trim }}) ||
        (has(object.metadata.annotations) && [
        'cni.projectcalico.org/floatingIPs', 'floe.dev/floating-ips'
        ].exists(a, a in object.metadata.annotations))
    - name: not-going
      expression: "!has(object.metadata.deletionTimestamp)"
    # What these make of an object was judged with the object.
    - name: not-of-a-controller
      expression: >-
        !(request.userInfo.username in [
        'system:kube-controller-manager',
        'system:serviceaccount:kube-system:deployment-controller',
        'system:serviceaccount:kube-system:replicaset-controller',
        'system:serviceaccount:kube-system:statefulset-controller',
        'system:serviceaccount:kube-system:daemon-set-controller',
        'system:serviceaccount:kube-system:job-controller',
        'system:serviceaccount:kube-system:cronjob-controller',
        'system:serviceaccount:kube-system:horizontal-pod-autoscaler',
        'system:serviceaccount:kube-system:generic-garbage-collector',
        'system:serviceaccount:kube-system:namespace-controller'])
{{- end -}}
