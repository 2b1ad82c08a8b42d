module holdfast.invalid/tools/pause

go 1.24.0
