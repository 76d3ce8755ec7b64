package calibrate

import (
	"reflect"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestModule(t *testing.T) {
	require.Equal(t, module+"/internal/calibrate", reflect.TypeFor[cache]().PkgPath())
}

func TestDescribeABuild(t *testing.T) {
	common := "method 1, " + runtime.GOOS + "/" + runtime.GOARCH + ", " + runtime.Version()
	settings := []debug.BuildSetting{
		{Key: "-race", Value: "true"}, {Key: "GOOS", Value: runtime.GOOS},
		{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "noon"}, {Key: "vcs.modified", Value: "true"},
	}
	for want, info := range map[string]*debug.BuildInfo{
		"": nil,
		", version (devel), -race true, vcs.revision abc, vcs.modified true": {
			Main: debug.Module{Path: module, Version: "(devel)"}, Settings: settings},
		", version v1.2.3, -race true": {
			Main: debug.Module{Path: "example.org/app", Version: "v9"},
			Deps: []*debug.Module{{Path: "example.org/x", Version: "v8"}, {Path: module, Version: "v1.2.3"}}, Settings: settings},
		", version v1.2.3, from example.org/fork, version v1.3.0": {
			Main: debug.Module{Path: "example.org/app"},
			Deps: []*debug.Module{{Path: module, Version: "v1.2.3", Replace: &debug.Module{Path: "example.org/fork", Version: "v1.3.0"}}}},
	} {
		require.Equal(t, common+want, describe(info))
	}
}
