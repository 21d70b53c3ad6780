{{- define "mailroom.labels" -}}
app.kubernetes.io/name: mailroom
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .name }}
{{- end }}

{{- define "mailroom.meta" -}}
name: {{ .root.Release.Name }}-{{ .name }}
labels:
  {{- include "mailroom.labels" . | nindent 2 }}
  app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
  helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{- define "mailroom.image" -}}
image: {{ .root.Values.image.registry }}/{{ .image }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
{{- end }}

{{- define "mailroom.url" -}}
{{ .Values.nats.url | default (printf "nats://%s-nats:4222" .Release.Name) }}
{{- end }}

{{/* What all pods have: a user of its own, no token of the cluster, nothing writable but its volumes. */}}
{{- define "mailroom.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- $jails := and (.jails | default false) .root.Values.jail.enabled }}
{{- if $jails }}
hostUsers: {{ .root.Values.jail.hostUsers }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {{- ternary .root.Values.jail.seccomp (dict "type" "RuntimeDefault") $jails | toYaml | nindent 4 }}
  {{- if $jails }}
  appArmorProfile: {{- toYaml .root.Values.jail.appArmor | nindent 4 }}
  {{- end }}
{{- end }}

{{- define "mailroom.container" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
  {{- if and .jails .root.Values.jail.enabled }}
  procMount: {{ .root.Values.jail.procMount }}
  {{- end }}
{{- end }}

{{- define "mailroom.environment" -}}
env:
  - {name: NATS_URL, value: {{ include "mailroom.url" .root | quote }}}
  {{- range $name, $value := .root.Values.environment }}
  - {name: {{ $name }}, value: {{ $value | quote }}}
  {{- end }}
  {{- range $name, $value := .more }}
  - {name: {{ $name }}, value: {{ $value | quote }}}
  {{- end }}
{{- with .root.Values.environmentFrom }}
envFrom: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Alive is a process whose event loop touches its file every 2 s: one that is blocked ends itself, one that is stopped is
ended here. Ready is one that gets what is sent to it; none is ended because the server is away. */}}
{{- define "mailroom.probes" -}}
{{- range $kind, $times := dict "livenessProbe" 3 "startupProbe" 30 }}
{{ $kind }}:
  exec:
    command: [sh, -c, "find /state/run -name '*.alive' -newermt '-12 seconds' | grep -q . || { python -m shared.heartbeat; exit 1; }"]
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: {{ $times }}
{{- end }}
readinessProbe:
  exec:
    command: [sh, -c, "find /state/run -name '*.pulling' -newermt '-12 seconds' | grep -q ."]
  periodSeconds: 5
  timeoutSeconds: 5
{{- end }}

{{- define "mailroom.key" -}}
- name: key
  secret: {secretName: {{ .root.Values.secrets }}-key-{{ .name }}, defaultMode: 0440}
{{- end }}
