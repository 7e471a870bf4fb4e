{{- define "adaptdl.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Each by its name: a standby refuses connections, and clients go on to the next. */ -}}
{{- define "adaptdl.supervisors" -}}
{{- $addresses := list -}}
{{- range $index := until (int .Values.supervisor.replicas) -}}
{{- $addresses = append $addresses (printf "adaptdl-supervisor-%d.adaptdl-supervisor.%s.svc:7100" $index $.Release.Namespace) -}}
{{- end -}}
{{ join "," $addresses }}
{{- end -}}
