package cpu

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// group is a control group of which the process is a member, directly or through its
// subgroups. See the Linux man page cgroups(7) for the files.
type group struct {
	dir     string // the directory of its files
	version int    // of the interface: 1 or 2
}

// groups returns the control groups whose limits for a controller ("memory", "cpu") apply
// to the process: the process's own group and its ancestors, of both versions.
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
			// In a container the path may be one of the host's, which doesn't exist here.
			// The mount's root, which is the last one tried, does.
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

// mount is a mount of a hierarchy of control groups.
type mount struct {
	root  string // the group at the root of the mount
	point string // the directory of the mount, without the leading slash
}

// within returns a group's path relative to the mount.
func (m mount) within(group string) string {
	group = path.Join("/", group)
	if below, ok := strings.CutPrefix(group, m.root); ok && m.root != "/" {
		return path.Join("/", below)
	}
	return group
}

// mounts returns the mounts of an interface version's groups, from the process's mount
// table, or the conventional directory if the table has none.
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

// integer reads a file that contains one number. It returns false if the file can't be read
// or contains anything else, such as "max".
func integer(root fs.FS, name string) (int64, bool) {
	data, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	return n, err == nil && n >= 0
}
