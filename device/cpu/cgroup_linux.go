package cpu

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// group is a control group that holds the process, by the directory of its files.
type group struct {
	dir     string
	version int // 1 or 2, of the interface
}

// groups returns the control groups whose limits of a controller ("memory", "cpu")
// hold for the process: its own and those above it, of either version.
func groups(root fs.FS, controller string) []group {
	var found []group
	text, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range strings.Lines(string(text)) {
		// hierarchy:controllers:path
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		version := 1
		if fields[1] == "" {
			version = 2
		} else if !slices.Contains(strings.Split(fields[1], ","), controller) {
			continue
		}
		for _, m := range mounts(root, version, controller) {
			// Within a container the path may be one of the host's, which isn't
			// there; the root of the mount is.
			for at := m.within(fields[2]); ; at = path.Dir(at) {
				found = append(found, group{path.Join(m.point, at), version})
				if at == "/" {
					break
				}
			}
		}
	}
	return found
}

// mount is where a hierarchy of control groups can be read.
type mount struct {
	root  string // the group that the mount shows as its root
	point string // the directory, without the leading slash
}

// within returns the path of a group below the mount.
func (m mount) within(group string) string {
	group = path.Join("/", group)
	if below, ok := strings.CutPrefix(group, m.root); ok && m.root != "/" {
		return path.Join("/", below)
	}
	return group
}

// mounts returns where a version's groups are mounted: what the process's mount
// table says, or else the usual place.
func mounts(root fs.FS, version int, controller string) []mount {
	var found []mount
	text, _ := fs.ReadFile(root, "proc/self/mountinfo")
	for line := range strings.Lines(string(text)) {
		// id parent device root point options [tag…] - type source options
		before, after, ok := strings.Cut(line, " - ")
		f, g := strings.Fields(before), strings.Fields(after)
		if !ok || len(f) < 5 || len(g) < 3 {
			continue
		}
		if version == 2 && g[0] == "cgroup2" || version == 1 && g[0] == "cgroup" && slices.Contains(strings.Split(g[2], ","), controller) {
			found = append(found, mount{path.Join("/", f[3]), strings.TrimPrefix(path.Clean(f[4]), "/")})
		}
	}
	switch {
	case found != nil:
	case version == 2:
		found = []mount{{"/", "sys/fs/cgroup"}}
	default:
		found = []mount{{"/", "sys/fs/cgroup/" + controller}}
	}
	return found
}

// integer reads a file of one number; "max" and whatever else isn't one.
func integer(root fs.FS, name string) (int64, bool) {
	data, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	return n, err == nil && n >= 0
}
