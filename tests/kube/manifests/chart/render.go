// Renders a chart as Helm does, for tests where Helm is not there: the same templates, with sprig's functions and those of Helm that the
// chart uses. The release is "adaptdl" in namespace "adaptdl".
//
//	render CHART [VALUES.json [OBJECTS.json]]
//
// VALUES.json lies over the chart's own values. OBJECTS.json: what lookup finds, as {"Secret/NAMESPACE/NAME": {...}}.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"gopkg.in/yaml.v3"
)

type object = map[string]interface{}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "render:", err)
		os.Exit(1)
	}
}

func read(path string) object {
	content, err := os.ReadFile(path)
	check(err)
	result := object{}
	check(yaml.Unmarshal(content, &result)) // JSON is YAML
	return result
}

// Maps are merged, all else is replaced; null takes a value away.
func merge(below, above object) object {
	for name, value := range above {
		inner, isMap := value.(object)
		outer, wasMap := below[name].(object)
		switch {
		case value == nil:
			delete(below, name)
		case isMap && wasMap:
			below[name] = merge(outer, inner)
		default:
			below[name] = value
		}
	}
	return below
}

func toYaml(value interface{}) (string, error) {
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	err := encoder.Encode(value)
	return strings.TrimSuffix(text.String(), "\n"), err
}

// Helm's .Files: the chart's own, by their path in it; nothing where there is none.
type files string

func (folder files) Get(name string) string {
	text, err := os.ReadFile(filepath.Join(string(folder), name))
	if err != nil {
		return ""
	}
	return string(text)
}

func functions(root *template.Template, objects object) template.FuncMap {
	all := sprig.TxtFuncMap()
	// Not in Helm: a template must not see this machine.
	delete(all, "env")
	delete(all, "expandenv")
	all["toYaml"] = toYaml
	all["include"] = func(name string, data interface{}) (string, error) {
		var text bytes.Buffer
		err := root.ExecuteTemplate(&text, name, data)
		return text.String(), err
	}
	all["required"] = func(why string, value interface{}) (interface{}, error) {
		if value == nil || value == "" {
			return nil, fmt.Errorf("%s", why)
		}
		return value, nil
	}
	all["lookup"] = func(version, kind, namespace, name string) object {
		found, _ := objects[kind+"/"+namespace+"/"+name].(object)
		return found
	}
	return all
}

func main() {
	if len(os.Args) < 2 {
		check(fmt.Errorf("give the chart's folder"))
	}
	chart := os.Args[1]
	values, objects := read(filepath.Join(chart, "values.yaml")), object{}
	if len(os.Args) > 2 {
		values = merge(values, read(os.Args[2]))
	}
	if len(os.Args) > 3 {
		objects = read(os.Args[3])
	}
	about := read(filepath.Join(chart, "Chart.yaml"))
	data := object{
		"Values":  values,
		"Files":   files(chart),
		"Release": object{"Name": "adaptdl", "Namespace": "adaptdl", "Service": "Helm"},
		"Chart":   object{"Name": about["name"], "Version": about["version"], "AppVersion": about["appVersion"]},
	}
	root := template.New("chart").Option("missingkey=error")
	root.Funcs(functions(root, objects))
	templates, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	check(err)
	sort.Strings(templates)
	for _, file := range templates {
		text, err := os.ReadFile(file)
		check(err)
		_, err = root.New(filepath.Base(file)).Parse(string(text))
		check(err)
	}
	documents := object{}
	for _, file := range templates {
		name := filepath.Base(file)
		if strings.HasPrefix(name, "_") {
			continue
		}
		var text bytes.Buffer
		check(root.ExecuteTemplate(&text, name, data))
		documents[name] = text.String()
	}
	check(json.NewEncoder(os.Stdout).Encode(documents))
}
