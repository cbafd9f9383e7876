{{- define "mcphub.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-{{ .Chart.Name }}{{ end -}}
{{- end }}

{{- define "mcphub.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "mcphub.labels" -}}
{{ include "mcphub.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* What the hub and the migration share: one container's image, rights, variables and volumes. */}}
{{- define "mcphub.container" -}}
image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
env:
  - name: MCPHUB_DATABASE_URL
    valueFrom: {secretKeyRef: {name: {{ .Values.database.existingSecret | quote }}, key: url}}
  - name: MCPHUB_DATABASE_DIRECT_URL
    valueFrom: {secretKeyRef: {name: {{ .Values.database.existingSecret | quote }}, key: directUrl, optional: true}}
  - name: MCPHUB_AUDIT_DATABASE_URL
    valueFrom: {secretKeyRef: {name: {{ .Values.database.existingSecret | quote }}, key: auditUrl, optional: true}}
  - {name: MCPHUB_ENCRYPTION_KEY_FILE, value: /keys/encryption_keys}
  - {name: MCPHUB_SECRET_KEY_FILE, value: /keys/secret_key}
  - {name: MCPHUB_SIGNING_KEY_FILE, value: /keys/signing.key}
  - {name: MCPHUB_PUBLIC_URL, value: {{ .Values.publicUrl | quote }}}
  - {name: MCPHUB_ALLOWED_HOSTS, value: {{ join "," .Values.allowedHosts | quote }}}
  - {name: MCPHUB_BEHIND_PROXY, value: "1"}
  - {name: MCPHUB_METRICS_PORT, value: {{ .Values.metrics.port | quote }}}
  - {name: MCPHUB_METRICS_HOST, value: "0.0.0.0"}
  - {name: MCPHUB_WORKERS, value: {{ .Values.workers | quote }}}
  {{- if .Values.peers.enabled }}
  - name: POD_IP
    valueFrom: {fieldRef: {fieldPath: status.podIP}}
  - {name: MCPHUB_PEER_ADDRESS, value: "$(POD_IP):{{ .Values.peers.port }}"}
  {{- end }}
  {{- with .Values.audit.checkpointWebhook }}
  - {name: MCPHUB_CHECKPOINT_WEBHOOK, value: {{ . | quote }}}
  {{- end }}
  {{- with .Values.audit.checkpointSyslog }}
  - {name: MCPHUB_CHECKPOINT_SYSLOG, value: {{ . | quote }}}
  {{- end }}
  {{- range $name, $value := .Values.settings }}
  - {name: {{ $name }}, value: {{ $value | quote }}}
  {{- end }}
volumeMounts:
  - {name: data, mountPath: /data}
  - {name: keys, mountPath: /keys, readOnly: true}
  - {name: tmp, mountPath: /tmp}
{{- end }}

{{- define "mcphub.pod" -}}
serviceAccountName: {{ include "mcphub.name" . }}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{ toJson . }}
{{- end }}
{{- end }}

{{- define "mcphub.volumes" -}}
- name: keys
  secret: {secretName: {{ .Values.keys.existingSecret | quote }}, defaultMode: 0440}
- name: tmp
  emptyDir: {}
{{- end }}

{{- define "mcphub.peerPorts" -}}
{protocol: TCP, port: {{ .Values.peers.port }}, endPort: {{ sub (add .Values.peers.port .Values.workers) 1 }}}
{{- end }}
